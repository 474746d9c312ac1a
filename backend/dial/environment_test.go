package dial_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/dial"
)

// TestWrongSettings checks that Open refuses wrong and incomplete settings: the error names each variable
// and file, and no secret.
func TestWrongSettings(t *testing.T) {
	ca := authority(t)
	good, other := ca.ForTest(t, "ann"), ca.ForTest(t, "bob")
	missing, folder, rubbish, empty := filepath.Join(t.TempDir(), "missing"), t.TempDir(), file(t, secret), file(t, "\n")
	kinds := []struct{ url, ca, cert, key string }{
		{"zk://h", "ZOOKEEPER_CACERT", "ZOOKEEPER_CERT", "ZOOKEEPER_KEY"},
		{"etcd://h", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"},
		{"consul://h", "CONSUL_CACERT", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY"},
	}
	type setting struct {
		url  string
		set  []string // pairs
		says []string
	}
	var wrong []setting
	add := func(url string, set []string, says ...string) { wrong = append(wrong, setting{url, set, says}) }
	for _, k := range kinds {
		add(k.url, []string{k.ca, missing}, k.ca, missing, "no such file", "set it to a file that this process may read")
		add(k.url, []string{k.ca, folder}, k.ca, folder, "is a directory")
		add(k.url, []string{k.ca, rubbish}, k.ca, rubbish, "-----BEGIN CERTIFICATE-----")
		add(k.url, []string{k.ca, "-----BEGIN CERTIFICATE-----\n" + secret}, k.ca+" is not the path of a file")
		add(k.url, []string{k.cert, good.Cert}, k.cert+" is set, and "+k.key+" is not")
		add(k.url, []string{k.key, good.Key}, k.key+" is set, and "+k.cert+" is not")
		add(k.url, []string{k.cert, rubbish, k.key, good.Key}, k.cert, rubbish, "no certificate and its key")
		add(k.url, []string{k.cert, good.Cert, k.key, rubbish}, k.key, rubbish, "no certificate and its key")
		add(k.url, []string{k.cert, good.Cert, k.key, other.Key}, good.Cert, other.Key, "does not match")
		add(k.url, []string{k.cert, good.Cert, k.key, missing, k.ca, folder}, k.key, missing, k.ca, folder) // all at once
	}
	for _, name := range []string{"ETCDCTL_PASSWORD_FILE", "CONSUL_HTTP_TOKEN_FILE", "ZOOKEEPER_AUTH_FILE"} {
		url := kinds[strings.Index("ZEC", name[:1])].url
		also := []string{"ETCDCTL_USER", "ann"}
		add(url, append(also, name, missing), name, missing, "no such file")
		add(url, append(also, name, folder), name, folder, "is a directory")
		add(url, append(also, name, empty), name, empty, "is empty")
	}
	add("etcd://h", []string{"ETCDCTL_PASSWORD", secret}, "there is no user: set ETCDCTL_USER")
	add("etcd://h", []string{"ETCDCTL_USER", secret}, "ETCDCTL_USER has no password: give user:password")
	add("etcd://h", []string{"ETCDCTL_USER", secret + ":"}, "ETCDCTL_USER has no password")
	add("etcd://h", []string{"ETCDCTL_USER", "a", "ETCDCTL_PASSWORD", secret, "ETCDCTL_PASSWORD_FILE", rubbish}, "ETCDCTL_PASSWORD and ETCDCTL_PASSWORD_FILE are both set")
	add("zk://h", []string{"ZOOKEEPER_AUTH", "digest:" + secret}, "ZOOKEEPER_AUTH", "digest:user:password")
	for _, half := range []string{"sasl:" + secret, "sasl::" + secret, "sasl:" + secret + ":"} {
		add("zk://h", []string{"ZOOKEEPER_AUTH", half}, "ZOOKEEPER_AUTH", "sasl:user:password")
	}
	add("zk://h?sasl=gssapi", nil, "lacks import", "dialkerberos")
	add("zk://h?sasl=digest-md5", nil, "unknown mechanism: there is gssapi", "set ZOOKEEPER_AUTH to sasl:user:password")
	add("zk://h?sasl=gssapi", []string{"ZOOKEEPER_AUTH", "sasl:ann:" + secret}, "leave one of them out")
	add("zk://h", []string{"ZOOKEEPER_AUTH", "Client { Krb5LoginModule required; };"}, "lacks import", "dialkerberos")
	add("zk://h", []string{"ZOOKEEPER_AUTH", "Client { DigestLoginModule required password=" + secret + " };"}, "no JAAS file")
	add("zk://h?sasl=ann:"+secret, nil, "no name of a mechanism")
	add("etcd://h?sasl=gssapi", nil, `unknown parameter "sasl"`)
	add("zk://h", []string{"ZOOKEEPER_AUTH", secret}, "ZOOKEEPER_AUTH", "digest:user:password")
	add("zk://h", []string{"ZOOKEEPER_AUTH_FILE", rubbish}, "ZOOKEEPER_AUTH_FILE", "digest:user:password")
	add("consul://h", []string{"CONSUL_HTTP_SSL", "perhaps"}, `CONSUL_HTTP_SSL is "perhaps": set it to true or false`)
	add("consul://h", []string{"CONSUL_HTTP_SSL_VERIFY", "perhaps"}, "CONSUL_HTTP_SSL_VERIFY")
	for _, w := range wrong {
		t.Run(w.url+strings.Join(w.set, ","), func(t *testing.T) {
			setenv(t, w.set...)
			b, err := dial.Open(t.Context(), w.url)
			if !assert.Error(t, err) {
				_ = b.Close()
				return
			}
			for _, says := range w.says {
				assert.ErrorContains(t, err, says)
			}
			assert.NotContains(t, err.Error(), secret)
		})
	}
}

// TestOthersSettings checks that a service's variables do not affect the other services.
func TestOthersSettings(t *testing.T) {
	missing := filepath.Join(os.TempDir(), "missing", "file")
	for url, variables := range map[string][]string{
		"zk://h":     {"ETCDCTL_CACERT", missing, "CONSUL_CLIENT_KEY", missing, "ETCDCTL_PASSWORD", secret},
		"etcd://h":   {"ZOOKEEPER_CACERT", missing, "CONSUL_HTTP_TOKEN_FILE", missing, "ZOOKEEPER_AUTH", secret},
		"consul://h": {"ETCDCTL_CACERT", missing, "ZOOKEEPER_KEY", missing},
		"mem://":     {"ETCDCTL_CACERT", missing, "ZOOKEEPER_KEY", missing},
	} {
		t.Run(url, func(t *testing.T) {
			setenv(t, variables...)
			open(t, url)
		})
	}
}
