package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/elector-go/elector/backend"
)

// passwordLength is the length of a session's password, as servers make it.
const passwordLength = 16

// checkOfRoot is the body of a transaction that checks that "/" has any version: see session.vote.
var checkOfRoot = []byte{
	0, 0, 0, opCheck, 0, 0xff, 0xff, 0xff, 0xff, // a check, which is not the end
	0, 0, 0, 1, '/',
	0xff, 0xff, 0xff, 0xff, // any version
	0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff, // the end
}

// WillSecret implements backend.Testator. It returns the session's password, and a checksum of the
// session and the password. Servers reply to a wrong password as they do for a session that is over.
func (s *session) WillSecret() []byte {
	s.pin.mu.Lock()
	defer s.pin.mu.Unlock()
	if len(s.pin.password) != passwordLength {
		return nil
	}
	return secretOf(s.ID(), s.pin.password)
}

func secretOf(id string, password []byte) []byte {
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(id)), crc32.IEEETable, password)
	return binary.BigEndian.AppendUint32(append([]byte(nil), password...), sum)
}

// parseWill returns what a server needs.
func parseWill(w backend.Will) (id int64, password []byte, err error) {
	n, err := strconv.ParseUint(w.Session, 16, 64)
	if err != nil || n == 0 || formatSession(int64(n)) != w.Session {
		return 0, nil, errors.New("the will names no session of ZooKeeper's")
	}
	if len(w.Secret) < passwordLength || string(secretOf(w.Session, w.Secret[:passwordLength])) != string(w.Secret) {
		return 0, nil, errors.New("the will's secret is not the password of its session")
	}
	return int64(n), w.Secret[:passwordLength], nil
}

// Execute implements backend.Executor. The client library cannot take over a session, so Execute speaks
// the protocol itself: it connects with the session's ID and password, as the session's process does
// after a link broke, presents Config.Auth, and closes the session. If that fails after a server has
// accepted the session, the session lives for a full timeout from then on.
//
// Execute asks one server after the other, each for as long as Config.ConnectTimeout. If the session's
// process is alive, it loses its link, and learns that the session is over when it connects again.
//
// A server that does not know the session proves nothing yet. A deposed leader that does not know it
// yet may never have heard of the session; and a leader that is just closing it denies it before a
// quorum has agreed, and before its entries are gone. So Execute then makes a quorum agree to a
// transaction that changes nothing, and asks again, this time a server that has seen the transaction.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	id, password, err := parseWill(w)
	if err != nil {
		return err
	}
	hosts := newHosts(b.cfg.Servers, true)
	for seen := int64(0); ; {
		server, _ := hosts.Next()
		over, zxid, err := b.executeAt(ctx, server, hosts.pause(), w.TTL, id, password, seen)
		seen = max(seen, zxid)
		switch {
		case over:
			return nil
		case ctx.Err() != nil:
			return hosts.over(ctx)
		case errors.Is(err, backend.ErrDenied), errors.Is(err, errors.ErrUnsupported):
			return fmt.Errorf("%s: %w", server, err)
		case err != nil:
			hosts.note(server, err)
		}
	}
}

// executeAt asks one server, after a pause. over reports that the session is known to be over. seen is
// the zxid of a transaction that a quorum has agreed to since a server did not know the session, or 0;
// the returned zxid is of the same kind.
func (b *Backend) executeAt(ctx context.Context, server string, pause, ttl time.Duration, id int64, password []byte, seen int64) (over bool, zxid int64, err error) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return false, 0, ctx.Err()
	}
	ask := func(id int64, password []byte, seen int64, ops ...int32) (known bool, zxid int64, err error) {
		patience := b.cfg.connectTimeout(ttl)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		conn, err := b.cfg.dial(ctx, "tcp", server, patience)
		if err != nil {
			return false, 0, err
		}
		defer func() { _ = conn.Close() }()                         // nothing is left to send
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends reads and writes
		t := talk{conn}
		if known, err = t.connect(id, password, seen, ttl); !known || err != nil {
			return false, 0, err
		}
		for _, auth := range b.cfg.Auth {
			if _, err = t.ask(xidAuth, opAuth, authBody(auth)); err != nil {
				return false, 0, fmt.Errorf("authenticate with scheme %q: %w", auth.Scheme, err)
			}
		}
		for i, op := range ops {
			var body []byte
			if op == opMulti {
				body = checkOfRoot
			}
			if zxid, err = t.ask(int32(i+1), op, body); err != nil {
				return false, 0, err
			}
		}
		return true, zxid, nil
	}
	known, _, err := ask(id, password, seen, opClose)
	if err != nil || known || seen != 0 {
		return err == nil, 0, err
	}
	_, zxid, err = ask(0, make([]byte, passwordLength), 0, opMulti, opClose)
	return false, zxid, err
}

// A talk is an exchange on one connection, without the client library.
type talk struct{ conn net.Conn }

// connect asks for a session, or for a new one if id is 0. known is false if the server has no such
// session.
func (t talk) connect(id int64, password []byte, seen int64, ttl time.Duration) (known bool, err error) {
	b := binary.BigEndian.AppendUint32(nil, 0) // the protocol version
	b = binary.BigEndian.AppendUint64(b, uint64(seen))
	b = binary.BigEndian.AppendUint32(b, uint32(min(max(ttl.Milliseconds(), 1), math.MaxInt32)))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	if err = t.send(appendBytes(b, password)); err != nil {
		return false, err
	}
	answer, err := t.receive(connectHead - 12)
	if err != nil {
		return false, err
	}
	timeout, got := int32(binary.BigEndian.Uint32(answer[4:])), int64(binary.BigEndian.Uint64(answer[8:]))
	switch {
	case got == 0 && id != 0:
		return false, nil
	case got == 0 || timeout <= 0:
		return false, fmt.Errorf("%w: session %d with a timeout of %d ms", errProtocol, got, timeout)
	case got != id && id != 0:
		return false, fmt.Errorf("%w: the server makes a new session where it is asked for one that is there", errors.ErrUnsupported)
	}
	return true, nil
}

// ask sends a request, and returns the zxid of the reply.
func (t talk) ask(xid, op int32, body []byte) (zxid int64, err error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	if err = t.send(append(b, body...)); err != nil {
		return 0, err
	}
	answer, err := t.receive(answerHead)
	if err != nil {
		return 0, err
	}
	got, code := int32(binary.BigEndian.Uint32(answer)), int32(binary.BigEndian.Uint32(answer[12:]))
	switch zxid = int64(binary.BigEndian.Uint64(answer[4:])); {
	case got != xid:
		return 0, fmt.Errorf("%w: answer to %d instead of %d", errProtocol, got, xid)
	case code != 0:
		return 0, readError(fmt.Errorf("unknown error: %d", code)) // in the client library's words
	case op == opMulti && zxid <= 0:
		return 0, fmt.Errorf("%w: transaction %d", errProtocol, zxid)
	}
	return zxid, nil
}

func (t talk) send(frame []byte) error {
	_, err := t.conn.Write(appendBytes(nil, frame))
	return err
}

// receive returns a frame of at least least bytes.
func (t talk) receive(least int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(t.conn, head[:]); err != nil {
		return nil, err
	}
	length := int32(binary.BigEndian.Uint32(head[:]))
	if length < int32(least) || length > lookAhead {
		return nil, fmt.Errorf("%w: frame of %d bytes", errProtocol, length)
	}
	frame := make([]byte, length)
	_, err := io.ReadFull(t.conn, frame)
	return frame, err
}

func authBody(a Auth) []byte {
	b := appendBytes(binary.BigEndian.AppendUint32(nil, 0), []byte(a.Scheme)) // 0 is the type
	return appendBytes(b, a.Credentials)
}

// appendBytes appends b after its length, the encoding of all data that has a length.
func appendBytes(to, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...)
}
