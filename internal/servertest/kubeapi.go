package servertest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// KubeAPIConfig configures an API server and its etcd server. The zero value is ready to use.
type KubeAPIConfig struct {
	// NoSync is the etcd server's, and Dir that of both, as in ZooKeeperConfig.
	NoSync bool
	Dir    string

	// Args follow this package's own flags of the API server. The last value of a repeated flag counts, except
	// of a flag that takes a list.
	Args []string
}

// KubeAPI is a Kubernetes API server on an etcd server of its own. There is nothing else of Kubernetes:
// nobody runs a pod, no controller acts on an object. The methods of Server concern the API server.
type KubeAPI struct {
	*Server

	// Etcd has all the data, so Backup and Restore are called on it.
	Etcd *Etcd

	// CAFile is the path of the certificate of the authority that has signed the server's.
	CAFile string

	// Admin is the token of a user who may do everything. User is the token of the user KubeUser, who may
	// do nothing until a Role permits it. The server makes tokens for service accounts, too.
	Admin, User string

	client http.Client
}

// KubeUser is the name of the user with the token KubeAPI.User.
const KubeUser = "elector"

// kubeAPIBinary finds or builds the server, once per process.
var kubeAPIBinary = sync.OnceValues(func() (string, error) {
	return buildServer("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver")
})

// StartKubeAPI starts both servers and blocks until the namespace "default" can be used. The first use on a
// machine builds the API server, which takes ten minutes. Its certificate is valid for an hour. The caller
// closes it.
func StartKubeAPI(cfg KubeAPIConfig) (*KubeAPI, error) {
	path, err := kubeAPIBinary()
	if err != nil {
		return nil, err
	}
	ports, err := loopback.Ports(1)
	if err != nil {
		return nil, err
	}
	s, err := newServer("kubernetes", process.Spec{Name: "kube-apiserver", Path: path, Dir: cfg.Dir}, networktest.Local, ports)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	s.prepare = func() error { return nil }
	k := &KubeAPI{Server: s, Admin: uuid(), User: uuid()}
	s.probe = k.serves
	if k.Etcd, err = StartEtcd(EtcdConfig{NoSync: cfg.NoSync, Dir: cfg.Dir}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err = k.configure(cfg.Args); err == nil {
		err = k.Start()
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// configure writes the server's files and sets its flags.
func (k *KubeAPI) configure(more []string) error {
	authority, err := certtest.New()
	if err != nil {
		return err
	}
	files, err := authority.Write(k.dir, "kube-apiserver")
	if err != nil {
		return err
	}
	tokens := filepath.Join(k.dir, "tokens.csv")
	users := fmt.Sprintf("%s,admin,1,system:masters\n%s,%s,2\n", k.Admin, k.User, KubeUser)
	if err := os.WriteFile(tokens, []byte(users), 0o600); err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	k.CAFile = files.CA
	k.client = http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // as in loopbackHTTP
		TLSClientConfig:   &tls.Config{RootCAs: authority.Pool()},
	}}
	host, port, _ := net.SplitHostPort(k.addr)
	k.proc.Spec.Args = append([]string{
		"--etcd-servers", k.Etcd.URL(),
		"--bind-address", host,
		"--advertise-address", host, // else it looks for another network, and fails if there is none
		"--secure-port", port,
		"--tls-cert-file", files.Cert,
		"--tls-private-key-file", files.Key,
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", files.Cert,
		"--service-account-signing-key-file", files.Key,
		"--token-auth-file", tokens,
		"--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24",
		"--endpoint-reconciler-type", "none", // it would refuse to publish a loopback address
		"--disable-admission-plugins", "ServiceAccount", // no controller makes a namespace's default account
	}, more...)
	return nil
}

// URL returns the server's address as a URL.
func (k *KubeAPI) URL() string { return "https://" + k.Addr() }

// serves returns nil if the server is ready and has made its first namespace.
func (k *KubeAPI) serves(timeout time.Duration) error {
	if err := k.ask(timeout, k.Admin, http.MethodGet, "/readyz", "", nil); err != nil {
		return err
	}
	return k.ask(timeout, k.Admin, http.MethodGet, "/api/v1/namespaces/default", "", nil)
}

// ask sends a request to the server, as the user with the token.
func (k *KubeAPI) ask(timeout time.Duration, token, method, path, body string, result any) error {
	header := http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	return askBy(k.client, timeout, method, k.URL()+path, header, body, result)
}

// Wipe kills the API server and removes all objects. It does not start the API server again.
func (k *KubeAPI) Wipe() error {
	if err := k.Kill(); err != nil {
		return err
	}
	if err := k.Etcd.Wipe(); err != nil {
		return err
	}
	return k.Etcd.Start()
}

// Close closes the API server and then the etcd server. It may be called twice.
func (k *KubeAPI) Close() error {
	return errors.Join(k.Server.Close(), k.Etcd.Close())
}
