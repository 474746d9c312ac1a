package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// WillSecret implements backend.Testator. It returns the session's password, and a checksum of the
// session and the password. Servers reply to a wrong password as they do for a session that is over.
func (s *session) WillSecret() []byte {
	password := s.pin.Password()
	if password == nil {
		return nil
	}
	return secretOf(s.ID(), password)
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
	if len(w.Secret) < wire.PasswordLength || string(secretOf(w.Session, w.Secret[:wire.PasswordLength])) != string(w.Secret) {
		return 0, nil, errors.New("the will's secret is not the password of its session")
	}
	return int64(n), w.Secret[:wire.PasswordLength], nil
}

// Execute implements backend.Executor. The client library cannot take over a session, so Execute speaks
// the protocol itself: it connects with the session's ID and password, as the session's process does
// after a link broke, authenticates by Config.SASL and Config.Auth, and closes the session. If that fails after a
// server has accepted the session, the session lives for a full timeout from then on.
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
		over, zxid, err := b.executeAt(ctx, &hosts.addresses, server, hosts.pause(), w.TTL, id, password, seen)
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
			backend.Tried(ctx, hosts.failure())
			if hosts.refuse() { // each attempt at a server that refuses has it keep the session for another timeout
				return as(backend.ErrDenied, hosts.failure())
			}
		}
	}
}

// executeAt asks one server, after a pause. over reports that the session is known to be over. seen is
// the zxid of a transaction that a quorum has agreed to since a server did not know the session, or 0;
// the returned zxid is of the same kind.
func (b *Backend) executeAt(ctx context.Context, a *addresses, server string, pause, ttl time.Duration, id int64, password []byte, seen int64) (over bool, zxid int64, err error) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return false, 0, ctx.Err()
	}
	closeAt := func(id int64, password []byte, seen int64) (known bool, zxid int64, err error) {
		patience := b.cfg.connectTimeout(ttl)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		began := time.Now()
		conn, err := b.cfg.dial(ctx, a, "tcp", server, patience)
		if err != nil {
			return false, 0, err
		}
		defer func() { _ = conn.Close() }() // nothing is left to send
		x, err := b.cfg.startSASL(ctx, server, began, patience)
		if err != nil {
			return false, 0, refusedBy(err)
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends reads and writes
		t := wire.Talk{Conn: conn}
		if known, err = t.Connect(id, password, seen, ttl); !known || err != nil {
			return false, 0, err
		}
		if x != nil {
			if err = t.SASL(x); err != nil {
				return false, 0, refusedBy(err)
			}
		}
		for _, auth := range b.cfg.Auth {
			if err = t.Authenticate(auth.Scheme, auth.Credentials); err != nil {
				return false, 0, fmt.Errorf("authenticate with scheme %q: %w", auth.Scheme, readError(err))
			}
		}
		if id == 0 { // a new session, made for this
			if _, err = t.Agree(); err != nil {
				return false, 0, readError(err)
			}
		}
		zxid, err = t.CloseSession()
		return err == nil, zxid, readError(err)
	}
	known, _, err := closeAt(id, password, seen)
	if err != nil || known || seen != 0 {
		return err == nil, 0, err
	}
	_, zxid, err = closeAt(0, make([]byte, wire.PasswordLength), 0)
	return false, zxid, err
}
