package kerberos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

const conf = "[libdefaults]\n default_realm = R\n[realms]\n R = {\n kdc = 127.0.0.1:1\n }\n"

func file(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConfig(t *testing.T) {
	t.Setenv("KRB5_CONFIG", filepath.Join(t.TempDir(), "missing")+":"+file(t, conf))
	t.Setenv("KRB5_CLIENT_KTNAME", "")
	t.Setenv("KRB5CCNAME", "")
	for says, c := range map[string]Config{
		"krb5.conf: /missing":               {Krb5Conf: "/missing"},
		"keytab /missing":                   {Keytab: "/missing"},
		"the file has another format":       {Keytab: file(t, "\x05\x02\x00\x00\x00\xff")},
		"another format, or is damaged":     {Keytab: file(t, "rubbish")},
		`ServerPrincipal is "zookeeper"`:    {ServerPrincipal: "zookeeper"},
		`ServerPrincipal is "zookeeper/@R"`: {ServerPrincipal: "zookeeper/@R"},
		`cache is "KEYRING:persistent:0"`:   {Cache: "KEYRING:persistent:0"},
		"only files are read, FILE:path: ":  {Cache: "KCM:0"},
	} {
		require.ErrorContains(t, must.Err(New(c)), says)
	}
	m := must.Get(New(Config{}))(t)
	assert.Equal(t, fmt.Sprintf("GSSAPI for the cache /tmp/krb5cc_%d", os.Getuid()), m.String())
	for says, text := range map[string]string{"call kinit": "", "another format, or is damaged": "rubbish"} {
		m := must.Get(New(Config{Cache: "FILE:" + file(t, text)}))(t)
		_, err := m.Start(t.Context(), "h")
		require.ErrorContains(t, err, says)
	}
	_, err := must.Get(New(Config{Cache: "/missing"}))(t).Start(t.Context(), "h")
	require.ErrorContains(t, err, "credential cache /missing")
}

// A ticket serves all until most of its life is over, is then replaced beside the work, and lasts if the KDC is away. One
// that a server has refused is not used again.
func TestTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var away atomic.Bool
		m := &mechanism{config: Config{ServerPrincipal: "zookeeper/_HOST"}, tickets: make(map[string]*ticket), fetching: make(map[string]*fetch)}
		m.fetch = func(principal string) (*ticket, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			assert.Contains(t, []string{"zookeeper/h", "zookeeper/other"}, principal)
			if away.Load() {
				return nil, errors.New("away")
			}
			return &ticket{start: time.Now(), end: time.Now().Add(100 * time.Second), client: types.PrincipalName{NameString: []string{"ann"}}}, nil
		}
		start := func(host string) (*exchange, error) {
			x, err := m.Start(t.Context(), host)
			if err != nil {
				return nil, err
			}
			return x.(*exchange), nil
		}
		first := must.Get(start("H"))(t)
		assert.Same(t, first.ticket, must.Get(start("h"))(t).ticket)
		must.Get(start("other"))(t)
		assert.EqualValues(t, 2, asked.Load())

		time.Sleep(85 * time.Second)
		began := time.Now()
		assert.Same(t, first.ticket, must.Get(start("h"))(t).ticket)
		assert.Zero(t, time.Since(began), "nobody waits")
		time.Sleep(2 * time.Second)
		second := must.Get(start("h"))(t)
		assert.NotSame(t, first.ticket, second.ticket)
		assert.EqualValues(t, 3, asked.Load())

		away.Store(true)
		time.Sleep(90 * time.Second)
		assert.Same(t, second.ticket, must.Get(start("h"))(t).ticket)
		time.Sleep(20 * time.Second)
		require.ErrorContains(t, must.Err(start("h")), "away")
		away.Store(false)
		third := must.Get(start("h"))(t)

		first.Refused()
		assert.Same(t, third.ticket, must.Get(start("h"))(t).ticket, "it was the other that was refused")
		third.Refused()
		assert.NotSame(t, third.ticket, must.Get(start("h"))(t).ticket)

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(200 * time.Second)
		require.ErrorIs(t, must.Err(m.Start(ctx, "h")), context.DeadlineExceeded)
		synctest.Wait()
		time.Sleep(2 * time.Second)
	})
}

// No token of a server crashes the process or ends an exchange.
func FuzzExchange(f *testing.F) {
	f.Add([]byte("x"), []byte("y"))
	f.Add([]byte{0x60, 0x0f, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 2, 0, 0, 0}, []byte{5, 4, 1, 0xff, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, proof, offer []byte) {
		for _, skip := range []bool{false, true} {
			x := must.Get(newExchange(&ticket{realm: "R", client: types.PrincipalName{NameString: []string{"ann"}},
				key:     types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 32)},
				message: messages.Ticket{TktVNO: 5, Realm: "R", SName: types.NewPrincipalName(3, "zookeeper/h"), EncPart: types.EncryptedData{EType: 18, Cipher: []byte{1}}}}, func() {}))(t)
			_, _, err := x.Next(nil)
			require.NoError(t, err)
			token := proof
			if skip {
				x.step, token = toAgree, offer
			}
			if _, done, err := x.Next(token); done || err == nil {
				t.Fatal("accepted")
			}
		}
	})
}

// What krb5.conf includes counts, and of what is given twice the first.
func TestIncludes(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"realms":      "[realms]\n EMPTY = {\n admin_server = h\n }\n R = {\n kdc = one:1\n }\n R = {\n kdc = two:2\n }\n",
		"domain.conf": "[domain_realm]\n .example.com = R\n",
		"not~this":    "[libdefaults]\n default_realm = NOT\n",
		".nor.conf":   "[libdefaults]\n default_realm = NOT\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	read := func(text string) (*config.Config, error) {
		return (&Config{Krb5Conf: file(t, text)}).krb5Conf()
	}
	last := file(t, "[libdefaults]\n default_realm = LAST\n clockskew = 10\n[realms]\n R = {\n kdc = three:3\n }\n")
	c := must.Get(read("# a comment\nincludedir\t" + folder + "\nincludedir /missing\n[libdefaults] # here\n default_realm = R\ninclude " + last + "\n"))(t)
	assert.Equal(t, "R", c.LibDefaults.DefaultRealm)
	assert.Equal(t, 10*time.Second, c.LibDefaults.Clockskew)
	assert.Equal(t, "R", c.ResolveRealm("zk1.example.com"))
	_, kdcs, err := c.GetKDCs("R", true)
	require.NoError(t, err)
	assert.Equal(t, map[int]string{1: "one:1"}, kdcs)
	_, _, err = c.GetKDCs("EMPTY", true)
	require.ErrorContains(t, err, "no KDCs")

	require.ErrorContains(t, must.Err(read("include /missing\n")), "included by")
	itself := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(itself, []byte("include "+itself), 0o600))
	require.ErrorContains(t, must.Err((&Config{Krb5Conf: itself}).krb5Conf()), "it includes itself")
}

// What the library says becomes what is wrong, and where to correct it. What cannot pass is final.
func TestExplain(t *testing.T) {
	c := &Config{Krb5Conf: "/etc/krb5.conf"}
	for text, want := range map[string]struct {
		server, says string
		final        bool
	}{
		"KDC_ERR_NAME_EXP":            {"zookeeper/h@R", "ann@R has expired", true},
		"KDC_ERR_SERVICE_EXP":         {"zookeeper/h@R", "zookeeper/h@R has expired", true},
		"KDC_ERR_S_PRINCIPAL_UNKNOWN": {"krbtgt/OTHER@R", "[domain_realm] in /etc/krb5.conf", true},
		"no KDCs defined":             {"zookeeper/h@R", "/etc/krb5.conf names no KDC", true},
		"clock skew":                  {"zookeeper/h@R", "clock", false},
	} {
		err := c.explain(errors.New("[Root cause: KDC_Error] "+text), "ann@R", want.server)
		require.ErrorContains(t, err, want.says)
		assert.Equal(t, want.final, errors.Is(err, backend.ErrDenied), text)
	}
}
