package kerberos

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/elector-go/elector/backend"
)

// The steps of an exchange: RFC 4752, section 3.1.
const (
	toRequest = iota // send the ticket
	toProve          // check that the server has its key
	toAgree          // choose no security layer
)

const (
	sealed         = 2 // flags of a wrap token: RFC 4121, section 4.2.2
	acceptorSubkey = 4
	noLayer        = 1 // a bit of the server's offer
)

// mechanismOID is that of Kerberos 5, 1.2.840.113554.1.2.2, in DER.
var mechanismOID = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

type exchange struct {
	ticket        *ticket
	refused       func()
	step          int
	authenticator types.Authenticator
	key           types.EncryptionKey // of the ticket, or the server's subkey
	subkey        bool                // the latter
	sequence      uint32              // the number of the server's first message
}

func newExchange(t *ticket, refused func()) (*exchange, error) {
	a, err := types.NewAuthenticator(t.realm, t.client)
	if err != nil {
		return nil, err
	}
	// RFC 4121, section 4.1.1: no channel bindings, and the flags.
	sum := make([]byte, 24)
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], uint32(gssapi.ContextFlagMutual|gssapi.ContextFlagReplay|gssapi.ContextFlagSequence|gssapi.ContextFlagInteg))
	a.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	return &exchange{ticket: t, refused: refused, authenticator: a, key: t.key}, nil
}

// String hides the key.
func (x *exchange) String() string   { return "exchange of " + x.ticket.String() }
func (x *exchange) GoString() string { return x.String() }
func (t *ticket) String() string     { return "ticket of " + t.user() }
func (t *ticket) GoString() string   { return t.String() }

// Refused is told that the server has refused: the ticket is not used again.
func (x *exchange) Refused() { x.refused() }

// Next implements zookeeper.Exchange.
func (x *exchange) Next(challenge []byte) (response []byte, done bool, err error) {
	defer func() {
		if recover() != nil { // the library looks at what a server has sent
			response, done, err = nil, false, crashed("the server's token is malformed")
		}
	}()
	switch x.step {
	case toRequest:
		response, err = x.request()
	case toProve:
		response, err = []byte{}, x.prove(challenge)
	case toAgree:
		response, err = x.agree(challenge)
	default:
		err = errors.New("the server goes on after the end")
	}
	x.step++
	return response, err == nil && x.step > toAgree, err
}

// request returns the token with the ticket.
func (x *exchange) request() ([]byte, error) {
	request, err := messages.NewAPReq(x.ticket.message, x.ticket.key, x.authenticator)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&request.APOptions, flags.APOptionMutualRequired)
	text, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	inner := bytes.Join([][]byte{mechanismOID, {1, 0}, text}, nil)
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, Tag: 0, IsCompound: true, Bytes: inner})
}

// prove checks that the server could read the ticket, which takes the key of its principal.
func (x *exchange) prove(token []byte) error {
	var outer asn1.RawValue
	rest, err := asn1.Unmarshal(token, &outer)
	if err != nil || len(rest) > 0 || outer.Class != asn1.ClassApplication || outer.Tag != 0 || !bytes.HasPrefix(outer.Bytes, mechanismOID) {
		return fmt.Errorf("%w: the server's token is none of Kerberos: it wants another mechanism", backend.ErrDenied)
	}
	inner := outer.Bytes[len(mechanismOID):]
	if !bytes.HasPrefix(inner, []byte{2, 0}) {
		var refusal messages.KRBError
		if bytes.HasPrefix(inner, []byte{3, 0}) && refusal.Unmarshal(inner[2:]) == nil {
			return fmt.Errorf("the server refuses the ticket: %w", refusal)
		}
		return errors.New("the server does not prove that it has the key of its principal")
	}
	var reply messages.APRep
	if err := reply.Unmarshal(inner[2:]); err != nil {
		return err
	}
	text, err := crypto.DecryptEncPart(reply.EncPart, x.ticket.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return fmt.Errorf("the server does not prove that it has the key of its principal: %w", err)
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(text); err != nil {
		return err
	}
	if part.CTime.Unix() != x.authenticator.CTime.Unix() || part.Cusec != x.authenticator.Cusec {
		return errors.New("the server's proof is of another time: it may have been recorded")
	}
	if len(part.Subkey.KeyValue) > 0 {
		x.key, x.subkey = part.Subkey, true
	}
	x.sequence = uint32(part.SequenceNumber)
	return nil
}

// agree reads the server's offer of security layers, and chooses none.
func (x *exchange) agree(token []byte) ([]byte, error) {
	if len(token) < gssapi.HdrLen {
		return nil, errors.New("the server's offer is too short")
	}
	if token[2]&sealed != 0 || (token[2]&acceptorSubkey != 0) != x.subkey {
		return nil, errors.New("the server's offer is encrypted, or with another key")
	}
	body := token[gssapi.HdrLen:]
	if n := len(body); n > 0 { // it may be rotated
		by := int(binary.BigEndian.Uint16(token[6:])) % n
		token = bytes.Join([][]byte{token[:gssapi.HdrLen], body[by:], body[:by]}, nil)
	}
	var offer gssapi.WrapToken
	if err := offer.Unmarshal(token, true); err != nil {
		return nil, err
	}
	if ok, _ := offer.Verify(x.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok { // the error has the checksum that a forger needs
		return nil, errors.New("the server's offer is not authentic")
	}
	switch {
	case offer.SndSeqNum != uint64(x.sequence):
		return nil, fmt.Errorf("the server's offer is message %d of it, not %d: it may have been recorded", offer.SndSeqNum, x.sequence)
	case len(offer.Payload) != 4:
		return nil, fmt.Errorf("the server's offer has %d bytes", len(offer.Payload))
	case offer.Payload[0]&noLayer == 0:
		return nil, errors.New("the server wants a security layer, and this client has none: use TLS")
	}
	etype, err := crypto.GetEtype(x.key.KeyType)
	if err != nil {
		return nil, err
	}
	choice := gssapi.WrapToken{
		EC: uint16(min(etype.GetHMACBitLength()/8, math.MaxUint16)), SndSeqNum: uint64(x.authenticator.SeqNumber),
		Payload: []byte{noLayer, 0, 0, 0}, // and no name: the one in the ticket
	}
	if x.subkey {
		choice.Flags |= acceptorSubkey
	}
	if err := choice.SetCheckSum(x.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return choice.Marshal()
}
