package dial

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// format writes a target as a URL.
func format(t *Target) string {
	u := t.scheme.Name + "://" + t.Name + strings.Join(t.Servers, ",")
	if t.Path != "" {
		u += "/" + url.PathEscape(t.Path[1:])
	}
	query := make(url.Values)
	if t.Timeout != 0 {
		query.Set("timeout", t.Timeout.String())
	}
	for name, value := range t.Params {
		query.Set(name, value)
	}
	if t.TLS != nil {
		query.Set("tls", strconv.FormatBool(*t.TLS))
	}
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return strings.ReplaceAll(u, "@", "%40")
}

// FuzzParse checks that a URL means what it says: formatted again from its parts it means the same, its
// parts can be dialled and stored, and an unknown scheme is refused by its name.
func FuzzParse(f *testing.F) {
	for _, url := range []string{
		"mem://name", "mem://", "zk://h1:2181,h2/chroot?timeout=10s", "etcd://h1:2379,[::1]:2379/a/b%20%40%2f?tls=true", "etcd://[fe80::1%25eth0]",
		"consul://127.0.0.1:8500?check=2s&tls=false&timeout=1h", "zk://h/%ff", "zk://h/a%2Fb", "zk://h/%2e%2e/x", "zk://h?timeout=0.5us", "redis://h", "://", "x", "zk://h?",
		"zk://h/?", "zk://[::ffff:1.2.3.4]:1", "zk://[::1%25a,b]:1", "ZK://h", "zk://h:00001", "mem://a?",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parse(raw)
		scheme, _, isURL := strings.Cut(raw, "://")
		if err != nil {
			known := slices.Contains(Schemes(), scheme)
			if isURL && !known && !strings.Contains(raw, "@") {
				assert.ErrorContains(t, err, "unknown scheme "+strconv.Quote(scheme), "%q", raw)
			}
			return
		}
		require.Equal(t, scheme, got.scheme.Name, "%q", raw)
		for _, server := range got.Servers {
			host, port, err := net.SplitHostPort(server)
			n, bad := strconv.Atoi(port)
			assert.True(t, err == nil && bad == nil && host != "" && n >= 1 && n <= 65535, "%q: server %q", raw, server)
		}
		assert.Equal(t, got.scheme.Port == "", len(got.Servers) == 0, "%q: servers %q", raw, got.Servers)
		if got.Path != "" {
			assert.NoError(t, backend.CheckKey(got.Path), "%q", raw)
		}
		assert.True(t, got.Timeout >= 0, "%q: timeout %v", raw, got.Timeout)
		again, err := parse(format(got))
		require.NoError(t, err, "%q means %q", raw, format(got))
		got.scheme, again.scheme = Scheme{}, Scheme{}
		assert.Equal(t, got, again, "%q", raw)
	})
}

// FuzzSecret checks that no error contains what may be a secret: text before an "@", text after a "#", and
// the value of an unknown parameter.
func FuzzSecret(f *testing.F) {
	f.Add("zk", "user", "host:1", "/path", "token", "s3cret/?#,:;%")
	f.Add("redis", "", "h", "", "password", "%zz%zz%zz")
	f.Add("etcd", "u:", "[::1", "//", "timeuot", "a=b;c=d")
	f.Add("consul", "", "h,h", "/a", "CHECK", "\x00\x00secret")
	f.Add("mem", "x/", ":", "", "tls ", "&&&&&&&&secret")
	f.Fuzz(func(t *testing.T, scheme, user, host, path, param, secret string) {
		const marker = "s3cr3t" // so that the error cannot have it by chance
		if slices.Contains([]string{"timeout", "tls", "check"}, param) || strings.Contains(scheme+user+host+path+param, marker) {
			return
		}
		hidden := marker + secret + marker
		before := scheme + "://"
		for _, raw := range []string{
			before + user + hidden + "@" + host + path,
			before + user + ":" + hidden + "@" + host + path,
			before + host + path + "?" + url.QueryEscape(param) + "=" + url.QueryEscape(hidden),
			before + host + path + "?timeout=1s&" + url.QueryEscape(param) + "=" + url.QueryEscape(hidden) + "&tls=true",
			before + host + path + "?" + url.QueryEscape(param) + "=" + strings.NewReplacer("&", "", "=", "", "+", "").Replace(hidden),
			before + host + "#" + hidden,
			"//" + user + hidden + "@" + host,
			"host:1?" + param + "=" + hidden,
		} {
			if strings.Contains(scheme, "@") || strings.HasPrefix(raw, "mem://") && strings.Contains(raw, "?=") {
				continue
			}
			b, err := Open(context.Background(), raw)
			if err == nil {
				_ = b.Close()
				t.Fatalf("%q is accepted", raw)
			}
			assert.NotContains(t, err.Error(), marker, "%q", raw)
			if len(secret) > 3 {
				assert.NotContains(t, err.Error(), fmt.Sprintf("%q", secret), "%q", raw)
			}
		}
	})
}
