// Package environment reads credentials and certificates from variables of the environment and from files, for
// the schemes of package dial.
package environment

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/elector-go/elector/tlsfiles"
)

// A Reader reads what does not belong in a URL, and collects all errors. No error contains a secret.
type Reader struct{ errs []error }

func (e *Reader) Fault(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf(format, args...))
}

// Err returns all errors, or nil.
func (e *Reader) Err() error { return errors.Join(e.errs...) }

// Secret returns the value of a variable, or the content of the file that the variable NAME_FILE names.
func (e *Reader) Secret(name string) string {
	value, fromFile := TrimNewline(os.Getenv(name)), name+"_FILE"
	switch {
	case os.Getenv(fromFile) == "":
		return value
	case value != "":
		e.Fault("%s and %s are both set: unset one of them", name, fromFile)
		return ""
	}
	return e.SecretFile(fromFile)
}

// SecretFile returns the content of the file that a variable names, without the newline at its end: editors
// put one there. (It also gets into a variable, from a Secret that kubectl has made of a file.) It returns
// "" if the variable is not set.
func (e *Reader) SecretFile(name string) string {
	if os.Getenv(name) == "" {
		return ""
	}
	text, ok := e.Read(name)
	secret := TrimNewline(string(text))
	if ok && secret == "" {
		e.Fault("%s: the file %s is empty: write the secret into it, or unset %s", name, os.Getenv(name), name)
	}
	return secret
}

// TrimNewline returns a secret without the newlines at its end.
func TrimNewline(text string) string { return strings.TrimRight(text, "\r\n") }

// Read reads the file that a variable names.
func (e *Reader) Read(name string) (text []byte, ok bool) {
	path := os.Getenv(name)
	if strings.Contains(path, "\n") || strings.HasPrefix(path, "-----BEGIN") {
		e.Fault("%s is not the path of a file: write what it has into a file, and set %s to the file's path", name, name)
		return nil, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		e.Fault("%s: %w: set it to a file that this process may read, or unset it", name, err)
	}
	return text, err == nil
}

// Flag returns the value of a variable that is true or false.
func (e *Reader) Flag(name string) (on, set bool) {
	value := os.Getenv(name)
	if value == "" {
		return false, false
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		e.Fault("%s is %q: set it to true or false", name, value)
	}
	return on, true
}

// Certificates are the names of the variables that name files for TLS.
type Certificates struct{ CA, Cert, Key string }

// Set reports whether one of them is set.
func (c Certificates) Set() bool {
	return os.Getenv(c.CA) != "" || os.Getenv(c.Cert) != "" || os.Getenv(c.Key) != ""
}

// TLS returns nil if TLS is not wanted. It is wanted if the URL says so, or, where the URL says nothing (nil),
// if there are certificates. Otherwise it returns a function that reads the files for each connection.
func (e *Reader) TLS(wanted *bool, names Certificates) func() (*tls.Config, error) {
	if wanted != nil && !*wanted || wanted == nil && !names.Set() {
		return nil
	}
	return e.Files(names).Config
}

// Files checks the files, and returns their paths.
func (e *Reader) Files(names Certificates) tlsfiles.Files {
	f := tlsfiles.Files{CA: os.Getenv(names.CA), Cert: os.Getenv(names.Cert), Key: os.Getenv(names.Key)}
	for _, half := range [][2]string{{names.Cert, names.Key}, {names.Key, names.Cert}} {
		if os.Getenv(half[0]) != "" && os.Getenv(half[1]) == "" {
			e.Fault("%s is set, and %s is not: a certificate takes its key; set both, or unset both", half[0], half[1])
		}
	}
	check := func(names string, read bool, f tlsfiles.Files) {
		if read {
			if _, err := f.Config(); err != nil {
				e.Fault("%s: %w", names, err)
			}
		}
	}
	if f.CA != "" {
		_, ok := e.Read(names.CA)
		check(names.CA, ok, tlsfiles.Files{CA: f.CA})
	}
	if f.Cert != "" && f.Key != "" {
		_, ok := e.Read(names.Cert)
		_, both := e.Read(names.Key)
		check(names.Cert+" and "+names.Key, ok && both, tlsfiles.Files{Cert: f.Cert, Key: f.Key})
	}
	return f
}
