package etcd_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// A closed session is not kept in memory until the timer of a watch that it kept for later has run.
func TestClosedSessionIsForgotten(t *testing.T) {
	t.Parallel()
	f := setUp(t, 30*time.Second)
	open := func() weak.Pointer[etcd.Backend] { // sessions hold the Backend
		b := must.Get(etcd.New(f.Client, etcd.Config{SessionTimeout: time.Hour}))(t)
		s := must.Get(b.Open(f.Ctx, backend.OpenOptions{}))(t)
		must.Get(s.Await(f.Ctx, backend.Unknown(f.Dir)))(t)
		require.NoError(t, s.Close(f.Ctx))
		return weak.Make(b)
	}
	b := open()
	assert.Eventually(t, func() bool {
		runtime.GC()
		return b.Value() == nil
	}, wait.Patience, 10*time.Millisecond)
}

// A reply that is larger than the client accepts comes after the commit was done.
func TestAnswerTooLarge(t *testing.T) {
	f := setUp(t, 20*time.Second)
	first := f.Commit(f.S, backend.Enqueue(f.Dir, []byte(strings.Repeat("x", 20000))))[0]
	small := setUpOn(t, 20*time.Second, func(cfg *clientv3.Config) {
		cfg.MaxCallRecvMsgSize, cfg.MaxCallSendMsgSize = 10000, 9000
	}, f.Servers...)
	e := small.Commit(small.S, backend.Enqueue(f.Dir, []byte("mine")))[0]
	f.Lists(f.S, first, e)
	_, err := small.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, []byte(strings.Repeat("x", 20000))))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.NotErrorIs(t, err, backend.ErrIndeterminate)
}

// elsewhere makes a reply look like another member's, not the one's that answers reads. That member
// does not know the lease, either: a leader that was deposed may say so.
func elsewhere(m any) {
	if answer, ok := m.(*etcdserverpb.LeaseKeepAliveResponse); ok {
		answer.Header.MemberId++
		answer.TTL = 0
	}
}

// Behind an address that serves several members, a heartbeat counts if one of them has answered both of
// its requests.
func TestRenewedByAnotherMember(t *testing.T) {
	for name, test := range map[string]struct {
		elsewhere int64 // how many streams go to another member
		ttl       time.Duration
		counts    bool
	}{
		"one": {1, 30 * time.Second, true},
		"all": {1 << 20, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			var opened, lists atomic.Int64
			f := setUp(t, test.ttl, wrapped(etcdserverpb.Lease_LeaseKeepAlive_FullMethodName, func(s grpc.ClientStream) grpc.ClientStream {
				if opened.Add(1) <= test.elsewhere {
					return received{s, elsewhere}
				}
				return s
			}), unary(func(_ context.Context, req any, send func() error) error {
				if _, ok := req.(*etcdserverpb.MemberListRequest); ok {
					lists.Add(1)
				}
				return send()
			}))
			first := f.S.Deadline()
			if test.counts {
				f.beats()
				f.AwaitState(f.S, backend.Live)
				return
			}
			f.AwaitState(f.S, backend.Lost)
			assert.Equal(t, first, f.S.Deadline())
			assert.Less(t, lists.Load(), int64(300), "it does not spin")
		})
	}
}

// An Open that nobody answers names whom it has asked, and why they did not answer.
func TestOpenSaysWhyNobodyAnswers(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = silent.Close() })
	http1 := httptest.NewServer(nil)
	t.Cleanup(http1.Close)
	plain := shared.ForTest(t).Addr()
	proxy, config := proxytest.TLSForTest(t, plain)
	for name, c := range map[string]struct {
		endpoints []string
		tls       *tls.Config
		why       string
		soon      bool // and not after the requested timeout
	}{
		"closed port":         {[]string{"127.0.0.1:1"}, nil, "connection refused", true},
		"two closed ports":    {[]string{"127.0.0.1:1", "127.0.0.1:2"}, nil, "connection refused", true},
		"unknown host":        {[]string{"no-such-host.invalid:2379"}, nil, "lookup no-such-host.invalid", true},
		"HTTP/1.1":            {[]string{http1.Listener.Addr().String()}, nil, "error reading server preface", true},
		"TLS at a plain port": {[]string{"https://" + plain}, config, "authentication handshake failed", false},
		"plaintext at TLS":    {[]string{proxy.Addr()}, nil, "reading server preface|broken pipe|connection reset", false},
		"silence":             {[]string{silent.Addr().String()}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := etcdtest.NewProcess(t, nil, func(cfg *clientv3.Config) { cfg.Endpoints, cfg.TLS = c.endpoints, c.tls }).Backend
			whom, why := "no answer in time from "+strings.Join(c.endpoints, ", "), regexp.MustCompile(c.why)
			open := func(within, ttl time.Duration, want error) (err error) {
				t.Helper()
				wait.For(t, "it says why", func() bool { // it asks for only a tenth of a second
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					_, err = b.Open(ctx, backend.OpenOptions{TTL: ttl})
					require.ErrorIs(t, err, want)
					require.ErrorContains(t, err, whom)
					return why.MatchString(err.Error())
				})
				return err
			}
			if c.soon {
				_ = open(wait.Patience, time.Hour, backend.ErrUnavailable)
			}
			_ = open(wait.Patience, 2*time.Second, backend.ErrUnavailable)
			err := open(300*time.Millisecond, 0, context.DeadlineExceeded)
			require.NotErrorIs(t, err, backend.ErrUnavailable)
			assert.Equal(t, 1, strings.Count(err.Error(), "deadline"), err)
		})
	}
}

// If its client is closed a session is lost at once, and the session and its Close say why; the entries
// stay until the lease expires.
func TestClientIsClosedFirst(t *testing.T) {
	t.Parallel()
	client := must.Get(clientv3.New(clientv3.Config{Endpoints: []string{shared.ForTest(t).Addr()}}))(t)
	b := must.Get(etcd.New(client, etcd.Config{}))(t)
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: newRoot(), ID: "a"}))(t)
	term := must.Get(e.Campaign(t.Context()))(t)
	session := term.Guard().Session
	_ = client.Close() // it returns only its own context's error
	<-term.Context().Done()
	require.ErrorIs(t, context.Cause(term.Context()), elector.ErrSessionLost)
	require.ErrorContains(t, session.Close(t.Context()), "the client is closed")
	_, err := e.Campaign(t.Context())
	require.ErrorContains(t, err, "the client is closed")
	opened, err := b.Open(t.Context(), backend.OpenOptions{})
	require.ErrorContains(t, err, "the client is closed")
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	require.Nil(t, opened)
	require.ErrorContains(t, e.Close(t.Context()), "the client is closed")
}
