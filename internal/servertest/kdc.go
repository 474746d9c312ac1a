package servertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// A KDC is the process of a Kerberos server of MIT's, for one realm, with a database of its own.
type KDC struct {
	*Server
	Realm string
}

// StartKDC starts a KDC of a realm, whose tickets live so long, and blocks until it serves. The caller closes it.
func StartKDC(realm string, life time.Duration) (*KDC, error) {
	path, err := kerberosProgram("krb5kdc")
	if err != nil {
		return nil, err
	}
	ports, err := loopback.Ports(1)
	if err != nil {
		return nil, err
	}
	s, err := newServer("kdc", process.Spec{Name: "KDC", Path: path, Args: []string{"-n", "-r", realm}}, networktest.Local, ports)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	k := &KDC{Server: s, Realm: realm}
	s.proc.Spec.Env = k.env()
	s.prepare = func() error { return os.MkdirAll(s.dataDir, 0o700) }
	s.probe = func(timeout time.Duration) error {
		conn, err := net.DialTimeout("tcp", s.addr, timeout)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	seconds := int(life.Seconds())
	err = errors.Join(
		s.prepare(),
		os.WriteFile(k.Conf(), fmt.Appendf(nil, `[libdefaults]
	default_realm = %s
	dns_lookup_kdc = false
	dns_lookup_realm = false
	rdns = false
	udp_preference_limit = 1
[realms]
	%s = {
		kdc = %s
	}
`, realm, realm, s.addr), 0o644),
		os.WriteFile(filepath.Join(s.dir, "kdc.conf"), fmt.Appendf(nil, `[kdcdefaults]
	kdc_listen = %s
	kdc_tcp_listen = %s
[realms]
	%s = {
		database_name = %s/principal
		key_stash_file = %s/stash
		max_life = %ds
		max_renewable_life = %ds
	}
`, s.addr, s.addr, realm, s.dataDir, s.dataDir, seconds, seconds), 0o644),
	)
	if err == nil {
		err = k.run("kdb5_util", "create", "-r", realm, "-s", "-P", "master")
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return k, nil
}

// KDCForTest is ZooKeeperForTest for a KDC, and Long: make test installs none.
func KDCForTest(tb testing.TB, realm string, life time.Duration) *KDC {
	tb.Helper()
	Long(tb, "a KDC")
	k, err := StartKDC(realm, life)
	CloseAfterTest(tb, err, k)
	return k
}

// Conf returns the path of a krb5.conf that names the KDC.
func (k *KDC) Conf() string { return filepath.Join(k.dir, "krb5.conf") }

func (k *KDC) env() []string {
	return []string{"KRB5_CONFIG=" + k.Conf(), "KRB5_KDC_PROFILE=" + filepath.Join(k.dir, "kdc.conf")}
}

// Add makes a principal with a random key, or gives it a new one, and returns a keytab that has only that.
func (k *KDC) Add(principal string) (keytab string, err error) {
	file, err := os.CreateTemp(k.dir, "*.keytab")
	if err != nil {
		return "", err
	}
	keytab = file.Name()
	_ = k.run("kadmin.local", "-r", k.Realm, "addprinc", "-randkey", principal) // it may be there
	err = errors.Join(file.Close(), os.Remove(keytab), k.run("kadmin.local", "-r", k.Realm, "ktadd", "-k", keytab, principal))
	return keytab, err
}

// Remove removes a principal.
func (k *KDC) Remove(principal string) error {
	return k.run("kadmin.local", "-r", k.Realm, "delprinc", "-force", principal)
}

// Trusts makes the KDC give tickets to principals of another realm.
func (k *KDC) Trusts(other *KDC) error {
	var errs []error
	for _, at := range []*KDC{k, other} {
		errs = append(errs, at.run("kadmin.local", "-r", at.Realm, "addprinc", "-pw", "trust", "krbtgt/"+k.Realm+"@"+other.Realm))
	}
	return errors.Join(errs...)
}

// RequirePreauth makes the KDC give tickets only to a client that has the principal's key and the right time.
func (k *KDC) RequirePreauth(principal string) error {
	return k.run("kadmin.local", "-r", k.Realm, "modprinc", "+requires_preauth", principal)
}

// Init gets a ticket into a credential cache, as a user does.
func (k *KDC) Init(principal, keytab, cache string) error {
	return k.run("kinit", "-c", "FILE:"+cache, "-k", "-t", keytab, principal)
}

// JAAS returns the JAAS file of ZooKeeper servers with a principal. They start without the KDC.
func (k *KDC) JAAS(principal, keytab string) string {
	return fmt.Sprintf(`Server {
	com.sun.security.auth.module.Krb5LoginModule required
	useKeyTab=true
	keyTab="%s"
	storeKey=true
	useTicketCache=false
	isInitiator=false
	principal="%s@%s";
};
`, keytab, principal, k.Realm)
}

func (k *KDC) run(program string, args ...string) error {
	path, err := kerberosProgram(program)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), k.env()...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "\nkadmin.local: ") || strings.HasPrefix(string(out), "ktadd: ") {
		return fmt.Errorf("servertest: %s %s: %w: %s", program, strings.Join(args, " "), errors.Join(err, errors.New("failed")), out)
	}
	return nil
}

// kerberosProgram finds a program in $PATH, or in Debian's folder of servers.
func kerberosProgram(name string) (string, error) {
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("servertest: KDC: %w: there is no %s; run 'make setup-all', or install the packages "+
		"'krb5-kdc krb5-admin-server krb5-user'", ErrNotInstalled, name)
}
