package kerberos

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// An answer in the KDC's name, which anybody on the network can send, does not crash the process. The library cuts the
// checksum off what is shorter.
func TestForgedKDC(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	ann := types.NewPrincipalName(1, "ann")
	reply := messages.ASRep{KDCRepFields: messages.KDCRepFields{
		PVNO: 5, MsgType: 11, CRealm: "R", CName: ann,
		Ticket:  messages.Ticket{TktVNO: 5, Realm: "R", SName: types.NewPrincipalName(2, "krbtgt/R"), EncPart: types.EncryptedData{EType: 18, Cipher: []byte{1}}},
		EncPart: types.EncryptedData{EType: 18, Cipher: []byte{1}},
	}}
	text := must.Get(reply.Marshal())(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			head := make([]byte, 4)
			_, _ = io.ReadFull(conn, head)
			_, _ = io.ReadFull(conn, make([]byte, binary.BigEndian.Uint32(head)))
			_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
			_ = conn.Close()
		}
	}()
	keys := keytab.New()
	require.NoError(t, keys.AddEntry("ann", "R", "p", time.Now(), 1, 18))
	path := filepath.Join(t.TempDir(), "keytab")
	require.NoError(t, os.WriteFile(path, must.Get(keys.Marshal())(t), 0o600))
	m := must.Get(New(Config{Keytab: path, Krb5Conf: file(t, fmt.Sprintf(
		"[libdefaults]\n default_realm = R\n udp_preference_limit = 1\n dns_lookup_kdc = false\n[realms]\n R = {\n kdc = %s\n }\n", listener.Addr()))}))(t)
	_, err := m.Start(t.Context(), "h")
	require.ErrorContains(t, err, "malformed")
}

// atOffer returns an exchange that waits for the server's offer.
func atOffer(t *testing.T) *exchange {
	x := must.Get(newExchange(&ticket{realm: "R", client: types.NewPrincipalName(1, "ann"), key: types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 32)}}, func() {}))(t)
	x.step = toAgree
	return x
}

func offerOf(t *testing.T, x *exchange, change func(*gssapi.WrapToken), payload ...byte) []byte {
	w := gssapi.WrapToken{Flags: 1, EC: 12, Payload: payload}
	if change != nil {
		change(&w)
	}
	require.NoError(t, w.SetCheckSum(x.key, keyusage.GSSAPI_ACCEPTOR_SEAL))
	return must.Get(w.Marshal())(t)
}

// What the server offers is accepted if it may be no layer at all, and is whole and authentic.
func TestOffers(t *testing.T) {
	for name, try := range map[string]struct {
		change  func(*gssapi.WrapToken)
		payload []byte
		says    string
	}{
		"all":                {nil, []byte{7, 1, 0, 0}, ""},
		"none":               {nil, []byte{1, 0, 0, 0}, ""},
		"integrity alone":    {nil, []byte{2, 1, 0, 0}, "use TLS"},
		"all but none":       {nil, []byte{6, 1, 0, 0}, "use TLS"},
		"nothing":            {nil, []byte{0, 0, 0, 0}, "use TLS"},
		"three bytes":        {nil, []byte{1, 0, 0}, "has 3 bytes"},
		"five bytes":         {nil, []byte{1, 0, 0, 0, 0}, "has 5 bytes"},
		"no bytes":           {nil, []byte{}, "has 0 bytes"},
		"the client's own":   {func(w *gssapi.WrapToken) { w.Flags = 0 }, []byte{1, 0, 0, 0}, "acceptor flag"},
		"with another key":   {func(w *gssapi.WrapToken) { w.Flags = 5 }, []byte{1, 0, 0, 0}, "another key"},
		"sealed":             {func(w *gssapi.WrapToken) { w.Flags = 3 }, []byte{1, 0, 0, 0}, "encrypted"},
		"a checksum cut off": {func(w *gssapi.WrapToken) { w.EC = 0 }, []byte{1, 0, 0, 0}, "authentic"},
		"not the first":      {func(w *gssapi.WrapToken) { w.SndSeqNum = 1 }, []byte{1, 0, 0, 0}, "message 1"},
		"a checksum cut":     {func(w *gssapi.WrapToken) { w.EC = 4 }, []byte{1, 0, 0, 0}, "authentic"},
	} {
		x := atOffer(t)
		response, done, err := x.Next(offerOf(t, x, try.change, try.payload...))
		if try.says != "" {
			require.ErrorContains(t, err, try.says, name)
			assert.False(t, done, name)
			continue
		}
		require.NoError(t, err, name)
		assert.True(t, done)
		assert.Equal(t, []byte{1, 0, 0, 0}, response[16:20], "no layer, no size, and no name")
		_, done, err = x.Next(nil)
		require.Error(t, err)
		assert.False(t, done)
	}
}

// An offer of another key is refused without the checksum that it should have had: a forger may read the log.
func TestForgedOffer(t *testing.T) {
	x := atOffer(t)
	good := offerOf(t, x, nil, 1, 0, 0, 0)
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	_, _, err := x.Next(forged)
	require.ErrorContains(t, err, "not authentic")
	assert.NotContains(t, err.Error(), fmt.Sprintf("%x", good[20:]))
}
