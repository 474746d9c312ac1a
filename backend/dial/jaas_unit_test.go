package dial

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

func TestJAAS(t *testing.T) {
	for text, want := range map[string]struct {
		scheme, credentials string
		kerberos            map[string]string
		err                 string
	}{
		"sasl:ann:pass:word": {"sasl", "ann:pass:word", nil, ""},
		"x509:":              {"x509", "", nil, ""},
		`// of the servers
Server { org.example.Other required x="y"; };
/* and of clients */
Client {
	org.apache.zookeeper.server.auth.DigestLoginModule required // the one
	username="ann" password="a \"b\" \\ \$ ; } = //";
};`: {"sasl", `ann:a "b" \ $ ; } = //`, nil, ""},
		"Client{com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"/etc/ann keytab\"\n\tprincipal=\"ann@R\" debug=false;};": {
			"", "", map[string]string{"useKeyTab": "true", "keyTab": "/etc/ann keytab", "principal": "ann@R", "debug": "false"}, ""},
		"Client { a.Krb5LoginModule required; };":                                  {"", "", map[string]string{}, ""},
		"Client { a.DigestLoginModule required username=\"ann\" password=s3cr3t }": {err: "semicolon"},
		"Client { a.DigestLoginModule required username=\"ann\" password=\"s3cr3t": {err: "semicolon"},
		"Client { a.DigestLoginModule username=\"ann\" password=\"s3cr3t\"; };":    {err: "not MODULE"},
		"Client { a.DigestLoginModule required username ann \"s3cr3t\"; };":        {err: "not name=value"},
		"Client { a.DigestLoginModule required username=\"ann\"; };":               {err: "sasl:user:password"},
		"Client { a.PlainLoginModule required password=\"s3cr3t\"; };":             {err: "another module"},
		"Server { a.DigestLoginModule required user_ann=\"s3cr3t\"; };":            {err: "section Client"},
		"Client {":    {err: "semicolon"},
		"Client { \"": {err: "semicolon"},
	} {
		scheme, credentials, kerberos, err := parseAuth(text)
		if want.err != "" {
			require.ErrorContains(t, err, want.err, text)
			assert.NotContains(t, err.Error(), "s3cr3t")
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, []any{want.scheme, want.credentials, want.kerberos}, []any{scheme, credentials, kerberos}, text)
	}
}

// The file is read for each link. One that is being replaced is no reason to give up.
func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth")
	f := passwordFile{path, "ann"}
	assert.Equal(t, `DIGEST-MD5 for "ann"`, f.String())
	for text, says := range map[string]string{"": "SCHEME:CREDENTIALS", "sasl:bob:s3cr3t": "another user", "digest:ann:s3cr3t": "another user"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := f.Start(t.Context(), "h")
		require.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "s3cr3t")
	}
	responses := make(map[string]bool)
	for _, text := range []string{"sasl:ann:one\n", "Client { a.DigestLoginModule required username=ann password=two; };\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		x := must.Get(f.Start(t.Context(), "h"))(t)
		_, _, err := x.Next(nil)
		require.NoError(t, err)
		response, _, err := x.Next([]byte(`nonce="n",algorithm=md5-sess`))
		require.NoError(t, err)
		responses[string(response)] = true
	}
	assert.Len(t, responses, 2)
}

// No text crashes the process, or gives credentials without a scheme.
func FuzzJAAS(f *testing.F) {
	f.Add("Client { a.DigestLoginModule required username=\"ann\" password='x' /* */ ; };")
	f.Add("sasl:ann:word")
	f.Fuzz(func(t *testing.T, text string) {
		scheme, credentials, kerberos, err := parseAuth(text)
		if err == nil && kerberos == nil && scheme == "" {
			t.Fatalf("%q: %q", text, credentials)
		}
	})
}
