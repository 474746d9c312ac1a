package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The library's own client is not used: it makes room for any reply that a KDC announces, up to 4 GB.
const (
	longestReply = 1 << 20
	mostHops     = 6 // realms that refer to each other
)

// patience is how long one KDC may take.
var patience = map[string]time.Duration{"udp": time.Second, "tcp": 5 * time.Second}

// ask sends a request to the KDCs of a realm until one replies.
func ask(conf *config.Config, realm string, request []byte) ([]byte, error) {
	networks := []string{"tcp", "udp"}
	switch limit := conf.LibDefaults.UDPPreferenceLimit; {
	case limit == 1:
		networks = networks[:1]
	case len(request) <= limit:
		networks = []string{"udp", "tcp"}
	}
	var errs []error
	for _, network := range networks {
		_, kdcs, err := conf.GetKDCs(realm, network == "tcp")
		if err != nil {
			return nil, err
		}
		for i := 1; i <= len(kdcs); i++ {
			reply, err := askOne(network, kdcs[i], request)
			var refusal messages.KRBError
			switch {
			case err != nil:
				errs = append(errs, err)
			case refusal.Unmarshal(reply) != nil:
				return reply, nil
			case network == "tcp" || refusal.ErrorCode != errorcode.KRB_ERR_RESPONSE_TOO_BIG:
				return nil, refusal
			}
		}
	}
	return nil, fmt.Errorf("no KDC answers for %s: %w", realm, errors.Join(errs...))
}

func askOne(network, address string, request []byte) ([]byte, error) {
	conn, err := net.DialTimeout(network, address, patience[network])
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is left to send
	if err := conn.SetDeadline(time.Now().Add(patience[network])); err != nil {
		return nil, err
	}
	if network == "udp" {
		reply := make([]byte, 1<<16)
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		n, err := conn.Read(reply)
		return reply[:n], err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var length uint32
	if err := binary.Read(conn, binary.BigEndian, &length); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if length > longestReply {
		return nil, fmt.Errorf("%s: a reply of %d bytes", address, length)
	}
	reply := make([]byte, length)
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return reply, nil
}

// A login is a ticket for tickets.
type login struct {
	client types.PrincipalName
	realm  string
	ticket messages.Ticket
	key    types.EncryptionKey
}

// login gets one with the client's key: RFC 4120, section 3.1.
func (k clientKey) login(conf *config.Config) (*login, error) {
	who := credentials.New(k.name, k.realm).WithKeytab(k.keytab)
	request, err := messages.NewASReqForTGT(k.realm, conf, who.CName())
	if err != nil {
		return nil, err
	}
	request.PAData = append(request.PAData, types.PAData{PADataType: patype.PA_REQ_ENC_PA_REP})
	send := func() ([]byte, error) {
		text, err := request.Marshal()
		if err != nil {
			return nil, err
		}
		return ask(conf, k.realm, text)
	}
	reply, err := send()
	var refusal messages.KRBError
	if errors.As(err, &refusal) && refusal.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		stamp, why := k.stamp(who.CName(), refusal.EData)
		if why != nil {
			return nil, why
		}
		request.PAData = append(request.PAData, stamp)
		reply, err = send()
	}
	if err != nil {
		return nil, err
	}
	var answer messages.ASRep
	if err := answer.Unmarshal(reply); err != nil {
		return nil, err
	}
	if ok, err := answer.Verify(conf, who, request); !ok {
		return nil, err
	}
	return &login{who.CName(), k.realm, answer.Ticket, answer.DecryptedEncPart.Key}, nil
}

// stamp returns the time, encrypted with the first key of those that the KDC offers and the keytab has.
func (k clientKey) stamp(client types.PrincipalName, offer []byte) (types.PAData, error) {
	var all types.PADataSequence
	if err := all.Unmarshal(offer); err != nil {
		return types.PAData{}, err
	}
	for _, one := range all {
		if one.PADataType != patype.PA_ETYPE_INFO2 {
			continue
		}
		kinds, err := one.GetETypeInfo2()
		if err != nil {
			return types.PAData{}, err
		}
		for _, kind := range kinds {
			key, version, err := k.keytab.GetEncryptionKey(client, k.realm, 0, kind.EType)
			if err != nil {
				continue
			}
			now, err := types.GetPAEncTSEncAsnMarshalled()
			if err != nil {
				return types.PAData{}, err
			}
			sealed, err := crypto.GetEncryptedData(now, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
			if err != nil {
				return types.PAData{}, err
			}
			text, err := sealed.Marshal()
			return types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: text}, err
		}
	}
	return types.PAData{}, errNoKey
}

var errNoKey = errors.New("matching key not found in keytab")

// ticketFor gets a ticket for a service of a realm: RFC 4120, section 3.3. The KDC may refer to another realm: RFC 6806,
// section 8.
func (l *login) ticketFor(conf *config.Config, service types.PrincipalName, realm string) (answer messages.TGSRep, err error) {
	ticket, key := l.ticket, l.key
	for range mostHops {
		request, err := messages.NewTGSReq(l.client, realm, conf, ticket, key, service, false)
		if err != nil {
			return answer, err
		}
		text, err := request.Marshal()
		if err != nil {
			return answer, err
		}
		reply, err := ask(conf, realm, text)
		if err != nil {
			return answer, err
		}
		answer = messages.TGSRep{}
		if err := answer.Unmarshal(reply); err != nil {
			return answer, err
		}
		if err := answer.DecryptEncPart(key); err != nil {
			return answer, err
		}
		if ok, err := answer.Verify(conf, request); !ok {
			return answer, err
		}
		name := answer.Ticket.SName
		if name.NameString[0] != "krbtgt" || name.Equal(service) {
			return answer, nil
		}
		realm, ticket, key = name.NameString[len(name.NameString)-1], answer.Ticket, answer.DecryptedEncPart.Key
	}
	return answer, errors.New("the KDCs refer to each other")
}
