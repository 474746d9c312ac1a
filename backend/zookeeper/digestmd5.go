package zookeeper

import (
	"context"
	"crypto/fips140"
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
)

// digestMD5 is the mechanism DIGEST-MD5 of RFC 2831, with qop=auth.
type digestMD5 struct {
	user     string
	password func() string // a function is never printed
}

// DigestMD5 returns the SASL mechanism DIGEST-MD5 for a user of the section Server in the servers' JAAS file.
// The user's identity in an ACL is sasl:user. The password does not cross the network, but what does can be
// used to guess it, and MD5 is broken: use TLS with it. Servers of 3.10 refuse the mechanism unless
// zookeeper.fips-mode is false. Servers before 3.9.3 accept, under any name that they do not know, the password of
// the user who was authenticated last (ZOOKEEPER-4839).
func DigestMD5(user, password string) SASL {
	return &digestMD5{user, func() string { return password }}
}

func (d *digestMD5) String() string   { return fmt.Sprintf("DIGEST-MD5 for %q", d.user) }
func (d *digestMD5) GoString() string { return d.String() }

// Start implements SASL. All servers have the same name here, as ZooKeeper's own clients have it.
func (d *digestMD5) Start(context.Context, string) (Exchange, error) {
	if d.user == "" || d.password() == "" {
		return nil, errors.New("the user or the password is empty")
	}
	if fips140.Enforced() { // MD5 panics
		return nil, fmt.Errorf("%w: this program's FIPS 140-only mode allows no MD5: use Kerberos", backend.ErrDenied)
	}
	return &digestExchange{digestMD5: *d, uri: "zookeeper/zk-sasl-md5", nonce: rand.Text()}, nil
}

type digestExchange struct {
	digestMD5
	uri, nonce string
	sent       bool
	expected   string // the proof that the server knows the password, once the response was sent
}

// Next implements Exchange: nothing, the response to the challenge, and the server's proof.
func (x *digestExchange) Next(challenge []byte) (response []byte, done bool, err error) {
	switch {
	case !x.sent:
		x.sent = true
		return []byte{}, false, nil
	case x.expected == "":
		response, err = x.respond(challenge)
		return response, false, err
	}
	said, err := directives(string(challenge))
	if err == nil && subtle.ConstantTimeCompare([]byte(said["rspauth"]), []byte(x.expected)) != 1 {
		err = errors.New("the server does not prove that it knows the password: it is not the one that it seems")
	}
	return nil, err == nil, err
}

// respond returns the response to the challenge.
func (x *digestExchange) respond(challenge []byte) ([]byte, error) {
	said, err := directives(string(challenge))
	if err != nil {
		return nil, fmt.Errorf("the challenge: %w", err)
	}
	qop, offers := said["qop"]
	switch {
	case said["nonce"] == "" || said["algorithm"] != "md5-sess":
		return nil, errors.New("the challenge is none of DIGEST-MD5: the server may want another mechanism")
	case offers && !hasToken(qop, "auth"):
		return nil, fmt.Errorf("the server wants protection %.40q, and this client has auth alone: use TLS", qop)
	}
	var b strings.Builder
	if said["charset"] == "utf-8" {
		b.WriteString("charset=utf-8,")
	} else if !isLatin1(x.user) || !isLatin1(x.password()) {
		return nil, errors.New("the server knows ISO 8859-1 only, and the user or the password has other characters")
	}
	realm, hasRealm := said["realm"]
	fmt.Fprintf(&b, `username=%s,`, quoted(x.text(said, x.user)))
	if hasRealm {
		fmt.Fprintf(&b, `realm=%s,`, quoted(realm))
	}
	proof, expected := x.proofs(realm, said["nonce"])
	x.expected = expected
	fmt.Fprintf(&b, `nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth`,
		quoted(said["nonce"]), quoted(x.nonce), quoted(x.uri), proof)
	return []byte(b.String()), nil
}

// text returns a string as it is sent.
func (x *digestExchange) text(said map[string]string, s string) string {
	if said["charset"] == "utf-8" {
		return s
	}
	return string(latin1(s))
}

// proofs returns the client's proof that it knows the password, and the server's.
func (x *digestExchange) proofs(realm, nonce string) (ours, theirs string) {
	secret := md5.Sum([]byte(string(latin1(x.user)) + ":" + realm + ":" + string(latin1(x.password()))))
	a1 := hexMD5(string(secret[:]) + ":" + nonce + ":" + x.nonce)
	proof := func(a2 string) string {
		return hexMD5(a1 + ":" + nonce + ":00000001:" + x.nonce + ":auth:" + hexMD5(a2))
	}
	return proof("AUTHENTICATE:" + x.uri), proof(":" + x.uri)
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 returns a string in ISO 8859-1 if it can, as the standard wants it hashed, and else in UTF-8.
func latin1(s string) []byte {
	if !isLatin1(s) {
		return []byte(s)
	}
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return b
}

func isLatin1(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0xff }) }

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// hasToken reports whether a list with commas has a token.
func hasToken(list, token string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == token {
			return true
		}
	}
	return false
}

// directives parses name=value,name="value". A server may offer several realms: the first counts. Nothing else may be
// given twice.
func directives(s string) (map[string]string, error) {
	all := make(map[string]string)
	for s = strings.TrimLeft(s, ", \t\r\n"); s != ""; s = strings.TrimLeft(s, ", \t\r\n") {
		name, rest, ok := strings.Cut(s, "=")
		if !ok || strings.ContainsAny(name, `", `) {
			return nil, errors.New("it is no list of name=value")
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			var b strings.Builder
			i := 1
			for ; i < len(rest) && rest[i] != '"'; i++ {
				if rest[i] == '\\' && i+1 < len(rest) {
					i++
				}
				b.WriteByte(rest[i])
			}
			if i == len(rest) {
				return nil, errors.New("a quoted value does not end")
			}
			value, s = b.String(), rest[i+1:]
		} else if end := strings.IndexByte(rest, ','); end >= 0 {
			value, s = strings.TrimSpace(rest[:end]), rest[end:]
		} else {
			value, s = strings.TrimSpace(rest), ""
		}
		_, twice := all[name]
		switch {
		case !twice:
			all[name] = value
		case name != "realm":
			return nil, fmt.Errorf("it has %.40q twice", name)
		}
	}
	return all, nil
}
