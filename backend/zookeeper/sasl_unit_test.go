package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// saslServer grants sessions, and replies to a token by calling answer with its number on the connection, and to
// anything else with no error. It counts the connections, and the requests other than tokens.
func saslServer(t *testing.T, answer func(n int) (code int32, token []byte)) (address string, connections, others *atomic.Int64) {
	connections, others = new(atomic.Int64), new(atomic.Int64)
	b := fakeServer(t, func(conn net.Conn) {
		connections.Add(1)
		_ = wiretest.ReadFrame(conn)
		_, _ = conn.Write(wiretest.ConnectResponse(0x1234, 10_000))
		for n := 1; ; {
			request := wiretest.ReadFrame(conn)
			if request == nil {
				return
			}
			xid, op := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
			if op != wire.OpSASL {
				others.Add(1)
				_, _ = conn.Write(wiretest.AnswerTo(xid, 0))
				continue
			}
			code, token := answer(n)
			n++
			if token == nil {
				_, _ = conn.Write(wiretest.AnswerTo(xid, code, 0xff, 0xff, 0xff, 0xff))
			} else {
				_, _ = conn.Write(wiretest.AnswerTo(xid, code, wiretest.Frame(token)...))
			}
			if code != 0 {
				return
			}
		}
	})
	return b.cfg.Servers[0], connections, others
}

const md5Challenge = `realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`

// refusing replies as a server does if the password is wrong.
func refusing(n int) (int32, []byte) {
	if n == 1 {
		return 0, []byte(md5Challenge)
	}
	return -115, nil
}

func opens(t *testing.T, sasl SASL, servers ...string) error {
	b := must.Get(New(Config{Servers: servers, SASL: sasl}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err == nil {
		_ = s.Close(ctx)
	}
	return err
}

// If all servers refuse, that is final. While one is not heard, it may accept.
func TestSASLRefused(t *testing.T) {
	t.Parallel()
	one, ones, more := saslServer(t, refusing)
	two, twos, _ := saslServer(t, refusing)
	err := opens(t, DigestMD5("ann", "s3cr3t"), one, two)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "such as a wrong password")
	assert.NotContains(t, err.Error(), "s3cr3t")
	assert.GreaterOrEqual(t, ones.Load(), int64(2), "once may be a mistake")
	assert.GreaterOrEqual(t, twos.Load(), int64(2))
	assert.Zero(t, more.Load(), "nothing is sent but tokens")

	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	require.NoError(t, closed.Close())
	err = opens(t, DigestMD5("ann", "s3cr3t"), one, closed.Addr().String())
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.NotErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "such as a wrong password")
}

// A server that drops the link, or does what nobody has asked for, refuses nothing: it may be about to stop.
func TestSASLBroken(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(int) (int32, []byte){
		"a wrong proof":    func(int) (int32, []byte) { return 0, []byte(md5Challenge) },
		"an unknown error": func(int) (int32, []byte) { return -1, nil },
	} {
		server, _, more := saslServer(t, answer)
		err := opens(t, DigestMD5("ann", "s3cr3t"), server)
		require.ErrorIs(t, err, backend.ErrUnavailable, name)
		require.NotErrorIs(t, err, backend.ErrDenied, name)
		require.ErrorContains(t, err, "SASL: ", name)
		assert.Zero(t, more.Load(), name)
	}
}

// ticketed is a mechanism whose tickets come from elsewhere.
type ticketed func(ctx context.Context, host string) (Exchange, error)

func (s ticketed) Start(ctx context.Context, host string) (Exchange, error) { return s(ctx, host) }
func (ticketed) String() string                                             { return "tickets" }

// Without a ticket no session is asked for. What is wrong is said, and is final if it cannot pass.
func TestSASLWithoutATicket(t *testing.T) {
	t.Parallel()
	server, connections, _ := saslServer(t, refusing)
	away := errors.New("nobody at home")
	err := opens(t, ticketed(func(context.Context, string) (Exchange, error) { return nil, away }), server)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, server+": SASL with tickets: nobody at home")

	err = opens(t, ticketed(func(_ context.Context, host string) (Exchange, error) {
		return nil, fmt.Errorf("%w: no such user at %s", backend.ErrDenied, host)
	}), server)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "no such user at 127.0.0.1")
	wait.For(t, "a connection", func() bool { return connections.Load() > 0 })

	// One that waits is given up in time.
	b := must.Get(New(Config{Servers: []string{server}, ConnectTimeout: 4 * time.Second, SASL: ticketed(func(ctx context.Context, _ string) (Exchange, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})}))(t)
	_, err = b.Open(t.Context(), backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "not ready within 3s")

	require.ErrorIs(t, b.Execute(short(t), aWill), context.DeadlineExceeded)
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// The will's links authenticate, too: a refusal is final.
func TestSASLOfAWill(t *testing.T) {
	t.Parallel()
	server, _, more := saslServer(t, refusing)
	b := must.Get(New(Config{Servers: []string{server}, SASL: DigestMD5("ann", "s3cr3t")}))(t)
	err := b.Execute(t.Context(), aWill)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "such as a wrong password")
	assert.Zero(t, more.Load())
	var tried []string
	_ = b.Execute(backend.WithTried(t.Context(), func(err error) { tried = append(tried, err.Error()) }), aWill)
	require.NotEmpty(t, tried)
	assert.Contains(t, tried[0], "such as a wrong password", "before it gives up")
	require.ErrorIs(t, must.Get(New(Config{Servers: []string{server}, SASL: ticketed(func(context.Context, string) (Exchange, error) {
		return nil, backend.ErrDenied
	})}))(t).Execute(t.Context(), aWill), backend.ErrDenied)
}

// With SASL, what is created is for those who authenticate as the same user, unless Config.ACL says otherwise.
func TestSASLMakesTheACL(t *testing.T) {
	b := must.Get(New(Config{Servers: []string{"h:1"}, SASL: DigestMD5("u", "p")}))(t)
	require.Len(t, b.cfg.ACL, 1)
	assert.Equal(t, "auth", b.cfg.ACL[0].Scheme)
}
