package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// An environment reads what does not belong in a URL, and collects all errors. No error contains a secret.
type environment struct{ errs []error }

func (e *environment) fault(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// err returns all errors, or nil.
func (e *environment) err() error { return errors.Join(e.errs...) }

// secret returns the value of a variable, or the content of the file that the variable NAME_FILE names.
func (e *environment) secret(name string) string {
	value, fromFile := trimNewline(os.Getenv(name)), name+"_FILE"
	switch {
	case os.Getenv(fromFile) == "":
		return value
	case value != "":
		e.fault("%s and %s are both set: unset one of them", name, fromFile)
		return ""
	}
	return e.secretFile(fromFile)
}

// secretFile returns the content of the file that a variable names, without the newline at its end: editors
// put one there. (It also gets into a variable, from a Secret that kubectl has made of a file.) It returns
// "" if the variable is not set.
func (e *environment) secretFile(name string) string {
	if os.Getenv(name) == "" {
		return ""
	}
	text, ok := e.read(name)
	secret := trimNewline(string(text))
	if ok && secret == "" {
		e.fault("%s: the file %s is empty: write the secret into it, or unset %s", name, os.Getenv(name), name)
	}
	return secret
}

func trimNewline(text string) string { return strings.TrimRight(text, "\r\n") }

// read reads the file that a variable names.
func (e *environment) read(name string) (text []byte, ok bool) {
	path := os.Getenv(name)
	if strings.Contains(path, "\n") || strings.HasPrefix(path, "-----BEGIN") {
		e.fault("%s is not the path of a file: write what it has into a file, and set %s to the file's path", name, name)
		return nil, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		e.fault("%s: %w: set it to a file that this process may read, or unset it", name, err)
	}
	return text, err == nil
}

// flag returns the value of a variable that is true or false.
func (e *environment) flag(name string) (on, set bool) {
	value := os.Getenv(name)
	if value == "" {
		return false, false
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		e.fault("%s is %q: set it to true or false", name, value)
	}
	return on, true
}

// certificates are the names of the variables that name files for TLS.
type certificates struct{ ca, cert, key string }

// set reports whether one of them is set.
func (c certificates) set() bool {
	return os.Getenv(c.ca) != "" || os.Getenv(c.cert) != "" || os.Getenv(c.key) != ""
}

// tls returns nil if TLS is not wanted. It is wanted if the URL says so, or, where the URL says nothing, if
// there are certificates.
func (e *environment) tls(t *target, names certificates) *tls.Config {
	if t.tls != nil && !*t.tls || t.tls == nil && !names.set() {
		return nil
	}
	return e.tlsConfig(names)
}

func (e *environment) tlsConfig(names certificates) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := os.Getenv(names.ca); path != "" {
		config.RootCAs = x509.NewCertPool()
		if text, ok := e.read(names.ca); ok && !config.RootCAs.AppendCertsFromPEM(text) {
			e.fault("%s: the file %s has no certificate in it: it takes PEM, which has a line -----BEGIN CERTIFICATE-----", names.ca, path)
		}
	}
	config.GetClientCertificate = e.clientCertificate(names)
	return config
}

// clientCertificate checks a certificate and its key, and returns a function that reads them for each
// connection: both may be renewed while the process runs. It returns nil if there is none.
func (e *environment) clientCertificate(names certificates) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	cert, key := os.Getenv(names.cert), os.Getenv(names.key)
	for _, half := range [][2]string{{names.cert, names.key}, {names.key, names.cert}} {
		if os.Getenv(half[0]) != "" && os.Getenv(half[1]) == "" {
			e.fault("%s is set, and %s is not: a certificate takes its key; set both, or unset both", half[0], half[1])
		}
	}
	if cert == "" || key == "" {
		return nil
	}
	certPEM, ok := e.read(names.cert)
	keyPEM, both := e.read(names.key)
	if !ok || !both {
		return nil
	}
	bad := func(err error) error {
		return fmt.Errorf("%s and %s: the files %s and %s are no certificate and its key in PEM: %w", names.cert, names.key, cert, key, err)
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		e.errs = append(e.errs, bad(err))
	}
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, bad(err)
		}
		return &pair, nil
	}
}
