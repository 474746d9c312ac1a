package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// An Exchange is the client's side of one SASL authentication: see zookeeper.Exchange.
type Exchange interface {
	Next(challenge []byte) (response []byte, done bool, err error)
}

// ErrRefused means that a server did not authenticate the client. It hides the server's reply.
var ErrRefused = errors.New("SASL is refused")

const (
	codeAuthFailed   = -115
	codeSASLRequired = -124
	// Mechanisms need three rounds. A ticket with a list of groups may have 64 KB.
	maxRounds = 10
	maxToken  = 128 << 10
)

// Authenticate makes the link run an exchange as soon as the server has accepted the session, before the
// session is told about it, and before anything else is sent. If it fails, the link ends, and failed gets
// the reason. It must be called before anything is written.
func (l *Link) Authenticate(x Exchange, failed func(error)) { l.sasl, l.saslFailed = x, failed }

// authenticate does it. The time of the handshake bounds it.
func (l *Link) authenticate() error {
	if l.sasl == nil {
		return nil
	}
	l.mu.Lock()
	by := l.greetBy
	l.mu.Unlock()
	err := l.Conn.SetWriteDeadline(by) // Hurry shortens the time for reading alone: a server that reads does so soon
	if err == nil {
		err = runExchange(l.sasl, l.Conn, l.in)
	}
	if err == nil {
		err = l.Conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		l.saslFailed(err)
	}
	return err
}

// SASL runs an exchange.
func (t *Talk) SASL(x Exchange) error { return runExchange(x, t.Conn, t.Conn) }

// runExchange runs an exchange on a connection on which nothing else is pending, on a goroutine of its own: an
// Exchange is the user's code, and may end it, and the client library's goroutine must go on.
func runExchange(x Exchange, to io.Writer, from io.Reader) error {
	err := errors.New("SASL: the Exchange has ended its goroutine (runtime.Goexit, or FailNow of a test)")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = exchange(x, to, from)
	}()
	<-ended
	return err
}

// exchange does it. The server replies to each token before it looks at anything else.
func exchange(x Exchange, to io.Writer, from io.Reader) (err error) {
	defer func() {
		if told, ok := x.(interface{ Refused() }); ok && errors.Is(err, ErrRefused) {
			told.Refused()
		}
	}()
	token, done, err := x.Next(nil)
	for xid := int32(1); err == nil; xid++ { // the client library begins with 1, too: all of these are answered then
		if xid > maxRounds {
			return fmt.Errorf("%w: SASL has not ended after %d tokens of the server's", ErrProtocol, maxRounds)
		}
		request := binary.BigEndian.AppendUint32(nil, uint32(xid))
		request = binary.BigEndian.AppendUint32(request, OpSASL)
		if _, err = to.Write(appendBytes(nil, appendBytes(request, token))); err != nil {
			break
		}
		var challenge []byte
		if challenge, err = readToken(from, xid); err != nil {
			break
		}
		if done {
			if len(challenge) > 0 {
				return fmt.Errorf("%w: SASL is done, and the server sends another token", ErrProtocol)
			}
			return nil
		}
		if challenge == nil {
			return fmt.Errorf("%w: the server replies without a token: it has no JAAS file with a section Server, "+
				"or it has refused, and lets the client go on without rights (zookeeper.allowSaslFailedClients)", ErrRefused)
		}
		if token, done, err = x.Next(challenge); done && token == nil {
			return err
		}
	}
	return fmt.Errorf("SASL: %w", err)
}

// readToken reads the reply to a token. It returns nil if that has none.
func readToken(from io.Reader, xid int32) ([]byte, error) {
	var head struct {
		Length, XID int32
		ZXID        int64
		Code        int32
	}
	if err := binary.Read(from, binary.BigEndian, &head); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("the server closed the connection, as those before 3.5.9 do if they refuse: %w", err)
		}
		return nil, err
	}
	size := int(head.Length) - answerHead
	switch {
	case size < 0 || size > 4+maxToken:
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrProtocol, head.Length)
	case head.XID != xid:
		return nil, fmt.Errorf("%w: answer to %d instead of %d", ErrProtocol, head.XID, xid)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, err
	}
	switch {
	case head.Code == codeAuthFailed || head.Code == codeSASLRequired:
		if xid == 1 {
			return nil, fmt.Errorf("%w at the first token (%d): the server may want another mechanism, have another principal, keytab or time (Kerberos), or be in FIPS mode (DIGEST-MD5); its log has the reason", ErrRefused, head.Code)
		}
		return nil, fmt.Errorf("%w (%d): the server's log has the reason, such as a wrong password", ErrRefused, head.Code)
	case head.Code != 0:
		return nil, fmt.Errorf("unknown error: %d", head.Code)
	case size < 4:
		return nil, fmt.Errorf("%w: a token is missing", ErrProtocol)
	}
	n := int32(binary.BigEndian.Uint32(body))
	switch {
	case n == -1 && size == 4:
		return nil, nil
	case int(n) != size-4:
		return nil, fmt.Errorf("%w: a token of %d bytes in %d", ErrProtocol, n, size-4)
	}
	return body[4:], nil
}
