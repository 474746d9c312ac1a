package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

// checkOfRoot is the body of a transaction that checks that "/" has any version, which changes nothing.
var checkOfRoot = []byte{
	0, 0, 0, OpCheck, 0, 0xff, 0xff, 0xff, 0xff, // a check, which is not the end
	0, 0, 0, 1, '/',
	0xff, 0xff, 0xff, 0xff, // any version
	0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff, // the end
}

// A Talk is an exchange on one connection, without the client library.
type Talk struct {
	Conn net.Conn
	xid  int32
}

// Connect asks for a session, or for a new one if id is 0. known is false if the server has no such
// session.
func (t *Talk) Connect(id int64, password []byte, seen int64, ttl time.Duration) (known bool, err error) {
	b := binary.BigEndian.AppendUint32(nil, 0) // the protocol version
	b = binary.BigEndian.AppendUint64(b, uint64(seen))
	b = binary.BigEndian.AppendUint32(b, uint32(min(max(ttl.Milliseconds(), 1), math.MaxInt32)))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	answer, err := t.exchange(appendBytes(b, password), connectHead-12)
	if err != nil {
		return false, err
	}
	timeout, got := int32(binary.BigEndian.Uint32(answer[4:])), int64(binary.BigEndian.Uint64(answer[8:]))
	switch {
	case got == 0 && id != 0:
		return false, nil
	case got == 0 || timeout <= 0:
		return false, fmt.Errorf("%w: session %d with a timeout of %d ms", ErrProtocol, got, timeout)
	case got != id && id != 0:
		return false, fmt.Errorf("%w: the server makes a new session where it is asked for one that is there", errors.ErrUnsupported)
	}
	return true, nil
}

// Authenticate presents credentials.
func (t *Talk) Authenticate(scheme string, credentials []byte) error {
	b := appendBytes(binary.BigEndian.AppendUint32(nil, 0), []byte(scheme)) // 0 is the type
	_, err := t.ask(xidAuth, OpAuth, appendBytes(b, credentials))
	return err
}

// Agree makes a quorum agree to a transaction that changes nothing, and returns its zxid.
func (t *Talk) Agree() (zxid int64, err error) {
	t.xid++
	if zxid, err = t.ask(t.xid, OpMulti, checkOfRoot); err == nil && zxid <= 0 {
		return 0, fmt.Errorf("%w: transaction %d", ErrProtocol, zxid)
	}
	return zxid, err
}

// CloseSession closes the session, and returns the zxid of the reply.
func (t *Talk) CloseSession() (zxid int64, err error) {
	t.xid++
	return t.ask(t.xid, OpClose, nil)
}

// ask sends a request, and returns the zxid of the reply. An error code is reported in the client
// library's words.
func (t *Talk) ask(xid, op int32, body []byte) (zxid int64, err error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	answer, err := t.exchange(append(b, body...), answerHead)
	if err != nil {
		return 0, err
	}
	got, code := int32(binary.BigEndian.Uint32(answer)), int32(binary.BigEndian.Uint32(answer[12:]))
	switch zxid = int64(binary.BigEndian.Uint64(answer[4:])); {
	case got != xid:
		return 0, fmt.Errorf("%w: answer to %d instead of %d", ErrProtocol, got, xid)
	case code != 0:
		return 0, fmt.Errorf("unknown error: %d", code)
	}
	return zxid, nil
}

// exchange sends a request, and returns the reply, which must have that many bytes at least.
func (t *Talk) exchange(request []byte, least int) (reply []byte, err error) {
	if _, err = t.Conn.Write(appendBytes(nil, request)); err != nil {
		return nil, err
	}
	var length int32
	if err = binary.Read(t.Conn, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	if length < int32(least) || length > lookAhead {
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrProtocol, length)
	}
	reply = make([]byte, length)
	_, err = io.ReadFull(t.Conn, reply)
	return reply, err
}

// appendBytes appends b after its length, the encoding of all data that has a length.
func appendBytes(to, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...)
}
