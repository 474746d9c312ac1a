// Package certtest makes certificate authorities and certificates for tests, valid for an hour, and writes
// them to files for servers and clients that read files.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/must"
)

// An Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes a new authority.
func New() (*Authority, error) {
	a := new(Authority)
	made, err := a.sign(&x509.Certificate{
		// ZooKeeper's servers keep one authority of each name.
		Subject: pkix.Name{CommonName: fmt.Sprint("certtest ", time.Now().UnixNano())}, KeyUsage: x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true,
	})
	if err != nil {
		return nil, err
	}
	a.cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a, nil
}

// Pool returns a pool that holds only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// A Change alters a certificate before it is signed.
type Change func(*x509.Certificate)

// Expired makes a certificate that has expired.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// Elsewhere makes a certificate for another host.
func Elsewhere(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} }

// Issue makes a certificate with this common name for clients, and for servers at 127.0.0.1, ::1 and localhost.
func (a *Authority) Issue(name string, changes ...Change) (tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	return a.sign(template, changes...)
}

// sign signs a certificate by the authority, or by itself while there is none.
func (a *Authority) sign(template *x509.Certificate, changes ...Change) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certtest: %w", err)
	}
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
	for _, change := range changes {
		change(template)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certtest: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certtest: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Files are the paths of PEM files.
type Files struct {
	CA   string // the authority's certificate
	Cert string
	Key  string
	Both string // the key and the certificate, as ZooKeeper's servers need them
}

// ForTest issues a certificate and writes it to a temporary folder of the test.
func (a *Authority) ForTest(t testing.TB, name string, changes ...Change) Files {
	t.Helper()
	return must.Get(a.Write(t.TempDir(), name, changes...))(t)
}

// Write issues a certificate and writes it to a folder.
func (a *Authority) Write(dir, name string, changes ...Change) (Files, error) {
	made, err := a.Issue(name, changes...)
	if err != nil {
		return Files{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return Files{}, fmt.Errorf("certtest: %w", err)
	}
	encode := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	certPEM, keyPEM := encode("CERTIFICATE", made.Certificate[0]), encode("PRIVATE KEY", key)
	write := func(file string, text []byte) string {
		path := filepath.Join(dir, file)
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
		return path
	}
	files := Files{
		CA:   write("ca.pem", encode("CERTIFICATE", a.cert.Raw)),
		Cert: write("cert.pem", certPEM),
		Key:  write("key.pem", keyPEM),
		Both: write("both.pem", append(keyPEM, certPEM...)),
	}
	return files, err
}
