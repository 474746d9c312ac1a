package zookeeper

import (
	"bytes"
	"crypto/fips140"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// The example of RFC 2831, section 4.
func TestDigestMD5Example(t *testing.T) {
	x := &digestExchange{digestMD5: *DigestMD5("chris", "secret").(*digestMD5), uri: "imap/elwood.innosoft.com", nonce: "OA6MHXh6VqTrRk"}
	first, done, err := x.Next(nil)
	require.NoError(t, err)
	assert.False(t, done)
	assert.NotNil(t, first)
	assert.Empty(t, first)
	response, done, err := x.Next([]byte(`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`))
	require.NoError(t, err)
	assert.False(t, done)
	assert.Equal(t, `charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",`+
		`digest-uri="imap/elwood.innosoft.com",maxbuf=65536,response=d388dad90d4bbd760a152321f2143af7,qop=auth`, string(response))
	last, done, err := x.Next([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffd"))
	require.NoError(t, err)
	assert.True(t, done)
	assert.Nil(t, last)
}

func exchange(t *testing.T, user, password string) Exchange {
	x := must.Get(DigestMD5(user, password).Start(t.Context(), "h"))(t)
	_, _, err := x.Next(nil)
	require.NoError(t, err)
	return x
}

func TestDigestMD5Refuses(t *testing.T) {
	const good = `realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`
	for challenge, says := range map[string]string{
		"":                                     "none of DIGEST-MD5",
		"x":                                    "no list of name=value",
		`nonce="n`:                             "does not end",
		`nonce="n\`:                            "does not end",
		`nonce="n",algorithm=md5`:              "none of DIGEST-MD5",
		`algorithm=md5-sess`:                   "none of DIGEST-MD5",
		good + `,nonce="m"`:                    `"nonce" twice`,
		good + `,charset=utf-8`:                `"charset" twice`,
		good + `,qop="auth-int,auth-conf"`:     `"auth-int,auth-conf"`,
		"\x60\x48\x06\x09\x2a\x86\x48\x86\xf7": "no list of name=value",
	} {
		_, done, err := exchange(t, "u", "p").Next([]byte(challenge))
		require.ErrorContains(t, err, says, challenge)
		assert.False(t, done)
	}
	for _, proof := range []string{"", "rspauth=", "rspauth=00000000000000000000000000000000", good, "x"} {
		x := exchange(t, "u", "p")
		_, _, err := x.Next([]byte(good))
		require.NoError(t, err)
		_, done, err := x.Next([]byte(proof))
		require.Error(t, err, proof)
		assert.False(t, done)
	}
	_, _, err := exchange(t, "ł", "p").Next([]byte(`nonce="n",algorithm=md5-sess`))
	require.ErrorContains(t, err, "ISO 8859-1")
	for _, d := range []SASL{DigestMD5("", "p"), DigestMD5("u", "")} {
		require.ErrorContains(t, must.Err(d.Start(t.Context(), "h")), "is empty")
	}
}

// Several realms, quotes in names, spaces, and characters beyond ASCII.
func TestDigestMD5Characters(t *testing.T) {
	response, _, err := exchange(t, `a"b\cü`, "p").Next([]byte(` , realm="r\"1", realm="r2" ,nonce="n" , qop="auth-conf, auth",algorithm=md5-sess,charset=utf-8,`))
	require.NoError(t, err)
	said := must.Get(directives(string(response)))(t)
	assert.Equal(t, `a"b\cü`, said["username"])
	assert.Equal(t, `r"1`, said["realm"])

	latin, _, err := exchange(t, "ü", "p").Next([]byte(`nonce="n",algorithm=md5-sess`))
	require.NoError(t, err)
	assert.Contains(t, string(latin), "username=\"\xfc\"")
	assert.NotContains(t, string(latin), "realm")
	assert.Equal(t, []byte("\xfc"), latin1("ü"))
	assert.Equal(t, []byte("łü"), latin1("łü"))

	one, _, _ := exchange(t, "u", "p").Next([]byte(`nonce="n",algorithm=md5-sess`))
	two, _, _ := exchange(t, "u", "p").Next([]byte(`nonce="n",algorithm=md5-sess`))
	assert.NotEqual(t, one, two, "a nonce of its own each time")
}

// No way of printing a Config shows the password.
func TestDigestMD5Hides(t *testing.T) {
	c := Config{Servers: []string{"h:1"}, SASL: DigestMD5("ann", "s3cr3t")}
	b := must.Get(New(c))(t)
	x := exchange(t, "ann", "s3cr3t")
	var log bytes.Buffer
	for _, v := range []any{c, &c, b, b.cfg, c.SASL, x, struct{ c Config }{c}, struct{ SASL SASL }{c.SASL}} {
		fmt.Fprintf(&log, "%v %+v %#v %s\n", v, v, v, v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "v", v)
		text, _ := json.Marshal(v)
		log.Write(text)
	}
	assert.False(t, strings.Contains(log.String(), "s3cr3t"), log.String())
	assert.Equal(t, `DIGEST-MD5 for "ann"`, fmt.Sprint(c.SASL))
}

func FuzzDigestMD5(f *testing.F) {
	f.Add([]byte(`realm="r",nonce="n",qop="auth",algorithm=md5-sess,charset=utf-8`), []byte("rspauth=00"))
	f.Fuzz(func(t *testing.T, challenge, proof []byte) {
		x := exchange(t, `a"b`, "p")
		response, done, err := x.Next(challenge)
		if err != nil {
			return
		}
		if _, err := directives(string(response)); err != nil || done {
			t.Fatalf("%q: %v", response, err)
		}
		if _, done, _ = x.Next(proof); done {
			t.Fatal("a proof is found by chance")
		}
	})
}

// Where MD5 panics, the mechanism is refused before a server is asked.
func TestDigestMD5InFIPSMode(t *testing.T) {
	if !fips140.Enforced() {
		again := exec.Command(os.Args[0], "-test.run", "^TestDigestMD5InFIPSMode$")
		again.Env = append(os.Environ(), "GODEBUG=fips140=only")
		out, err := again.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	_, err := DigestMD5("ann", "s3cr3t").Start(t.Context(), "h")
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "no MD5")
}
