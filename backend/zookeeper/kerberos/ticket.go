package kerberos

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/elector-go/elector/backend"
)

// A ticket is for one principal of the servers.
type ticket struct {
	client     types.PrincipalName
	realm      string // the client's
	message    messages.Ticket
	key        types.EncryptionKey
	start, end time.Time
}

// user returns the client's principal.
func (t *ticket) user() string { return t.client.PrincipalNameString() + "@" + t.realm }

// stale reports whether it is time for another ticket, and over whether the ticket cannot be used.
func (t *ticket) stale(now time.Time) bool { return now.After(t.end.Add(-t.end.Sub(t.start) / 5)) }
func (t *ticket) over(now time.Time) bool  { return now.After(t.end.Add(-t.end.Sub(t.start) / 50)) }

// krb5Conf reads krb5.conf and what it includes. The library includes nothing, and of what is given twice it takes the
// last, where MIT's takes the first.
func (c *Config) krb5Conf() (*config.Config, error) {
	sections := make(map[string][]string)
	err := readSections(c.Krb5Conf, sections, 0)
	var conf *config.Config
	if err == nil {
		var text strings.Builder
		for name, lines := range sections {
			if name != "[realms" { // which has blocks
				slices.Reverse(lines)
			}
			fmt.Fprintf(&text, "%s]\n%s\n", name, strings.Join(lines, "\n"))
		}
		conf, err = config.NewFromString(text.String())
		if errors.As(err, new(config.UnsupportedDirective)) { // the rest counts
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("kerberos: krb5.conf: %s: %w: set KRB5_CONFIG to the file that kinit uses", c.Krb5Conf, err)
	}
	conf.Realms = slices.DeleteFunc(conf.Realms, func(r config.Realm) bool { return len(r.KDC) == 0 }) // another block may have them
	slices.Reverse(conf.Realms)
	return conf, nil
}

// readSections appends a file's lines, and those of the files that it includes, to their sections.
func readSections(path string, sections map[string][]string, depth int) error {
	text, err := os.ReadFile(path)
	if err == nil && depth > 10 {
		err = errors.New("it includes itself")
	}
	if err != nil {
		return err
	}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		var included []string
		directive, what, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		what = strings.TrimSpace(what)
		switch {
		case directive == "include":
			included = []string{what}
		case directive == "includedir":
			entries, err := os.ReadDir(what)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // without it, all may be there: as in a container
				return err
			}
			for _, e := range entries {
				if !e.IsDir() && includable.MatchString(e.Name()) {
					included = append(included, filepath.Join(what, e.Name()))
				}
			}
		case strings.HasPrefix(line, "["):
			name, _, _ = strings.Cut(strings.ToLower(line), "]")
		case name != "":
			sections[name] = append(sections[name], line)
		}
		for _, file := range included {
			if err := readSections(file, sections, depth+1); err != nil {
				return fmt.Errorf("included by %s: %w", path, err)
			}
		}
	}
	return nil
}

// includable are the names of files that includedir takes.
var includable = regexp.MustCompile(`^([A-Za-z0-9_-]+|[^.].*\.conf)$`)

// A clientKey is the client's principal, and the keytab that has its key.
type clientKey struct {
	name, realm string
	keytab      *keytab.Keytab
}

func (k clientKey) String() string { return k.name + "@" + k.realm }

// key reads the keytab.
func (c *Config) key() (k clientKey, err error) {
	bad := func(err error) error {
		return fmt.Errorf("kerberos: keytab %s: %w: make one with kadmin's ktadd, or ktutil; this process must be able to read it", c.Keytab, err)
	}
	k.keytab, err = parsed(c.Keytab, keytab.Load)
	if err != nil {
		return k, bad(err)
	}
	var there []string
	for _, e := range k.keytab.Entries {
		if name := strings.Join(e.Principal.Components, "/") + "@" + e.Principal.Realm; !slices.Contains(there, name) {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return k, bad(errors.New("it is empty"))
	}
	var hasRealm bool
	k.name, k.realm, hasRealm = strings.Cut(cmp.Or(c.Principal, there[0]), "@")
	if !hasRealm {
		conf, err := c.krb5Conf()
		if err != nil {
			return k, err
		}
		k.realm = conf.LibDefaults.DefaultRealm
	}
	if !slices.Contains(there, k.String()) {
		return k, bad(fmt.Errorf("it has no key of %s, but of %s", k, strings.Join(there, ", ")))
	}
	return k, nil
}

// parsed calls a parser, which may crash on the bytes of another format, and whose errors have parts of the file.
func parsed[T any](path string, load func(string) (T, error)) (v T, err error) {
	malformed := errors.New("the file has another format, or is damaged")
	defer func() {
		if recover() != nil {
			err = malformed
		}
	}()
	if _, err := os.ReadFile(path); err != nil {
		return v, err
	}
	if v, err = load(path); err != nil {
		return v, malformed
	}
	return v, nil
}

// fetch fetches a ticket. The library's client is used for one ticket only: it would keep a goroutine, which renews
// what nobody may want any more.
func (c *Config) fetch(principal string) (*ticket, error) {
	conf, err := c.krb5Conf()
	if err != nil {
		return nil, err
	}
	cl, tgt, key, err := c.login(conf)
	if err != nil {
		return nil, err
	}
	defer cl.Destroy()
	t := &ticket{client: cl.Credentials.CName(), realm: cl.Credentials.Domain()}
	user := t.user()
	name, realm, given := strings.Cut(principal, "@")
	if !given {
		_, host, _ := strings.Cut(name, "/")
		realm = cmp.Or(conf.ResolveRealm(host), t.realm)
	}
	if realm != t.realm {
		other := types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
		_, reply, err := cl.TGSREQGenerateAndExchange(other, t.realm, tgt, key, false)
		if err != nil {
			return nil, c.explain(err, user, "krbtgt/"+realm+"@"+t.realm)
		}
		tgt, key = reply.Ticket, reply.DecryptedEncPart.Key
	}
	_, reply, err := cl.TGSREQGenerateAndExchange(types.NewPrincipalName(nametype.KRB_NT_SRV_HST, name), realm, tgt, key, false)
	if err != nil {
		return nil, c.explain(err, user, name+"@"+realm)
	}
	part := reply.DecryptedEncPart
	t.message, t.key, t.start, t.end = reply.Ticket, part.Key, part.StartTime, part.EndTime
	if t.start.IsZero() || t.start.Before(time.Now()) {
		t.start = time.Now()
	}
	switch t.key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
		return t, nil
	}
	return nil, fmt.Errorf("%w: the KDC has made the key for %s of encryption type %d, and this client has AES alone: give that principal a key of AES",
		backend.ErrDenied, name, t.key.KeyType)
}

// login gets a ticket for tickets.
func (c *Config) login(conf *config.Config) (cl *client.Client, tgt messages.Ticket, key types.EncryptionKey, err error) {
	if c.Keytab == "" {
		return c.cached(conf)
	}
	k, err := c.key()
	if err != nil {
		return nil, tgt, key, err
	}
	cl = client.NewWithKeytab(k.name, k.realm, k.keytab, conf)
	request, err := messages.NewASReqForTGT(k.realm, conf, cl.Credentials.CName())
	if err != nil {
		return nil, tgt, key, err
	}
	reply, err := cl.ASExchange(k.realm, request, 0)
	if err != nil {
		return nil, tgt, key, c.explain(err, k.String(), "krbtgt/"+k.realm+"@"+k.realm)
	}
	return cl, reply.Ticket, reply.DecryptedEncPart.Key, nil
}

// cached reads the credential cache.
func (c *Config) cached(conf *config.Config) (cl *client.Client, tgt messages.Ticket, key types.EncryptionKey, err error) {
	bad := func(err error) error {
		return fmt.Errorf("kerberos: credential cache %s: %w: call kinit, or set KRB5CCNAME to the one that is renewed", c.Cache, err)
	}
	cache, err := parsed(c.Cache, credentials.LoadCCache)
	if err != nil {
		return nil, tgt, key, bad(err)
	}
	realm := cache.GetClientRealm()
	credential, ok := cache.GetEntry(types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}})
	if !ok {
		return nil, tgt, key, bad(errors.New("it has no ticket of the client's realm"))
	}
	if time.Now().After(credential.EndTime) {
		return nil, tgt, key, bad(fmt.Errorf("its ticket has ended at %v", credential.EndTime.Local().Format(time.DateTime)))
	}
	if err := tgt.Unmarshal(credential.Ticket); err != nil {
		return nil, tgt, key, bad(err)
	}
	if cl, err = client.NewFromCCache(cache, conf); err != nil {
		return nil, tgt, key, bad(err)
	}
	return cl, tgt, credential.Key, nil
}

// explain says what the library's error means. The library reports the KDC's codes in texts.
func (c *Config) explain(err error, user, server string) error {
	text := err.Error()
	unknown := "the KDC does not know the servers' principal " + server + ": name the hosts in Config.Servers as their principals do, or set ServerPrincipal"
	realm, of, _ := strings.Cut(strings.TrimPrefix(server, "krbtgt/"), "@")
	if strings.HasPrefix(server, "krbtgt/") && realm != of {
		unknown = "the KDC does not know " + server + ", which stands for trust in the realm of the servers: correct [domain_realm] in " + c.Krb5Conf +
			", which gives their hosts' realm, or ServerPrincipal: " + realm
	}
	for _, known := range []struct {
		contains, says string
		final          bool
	}{
		{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC does not know the client " + user + ": check the principal and its realm", true},
		{"KDC_ERR_S_PRINCIPAL_UNKNOWN", unknown, true},
		{"KDC_ERR_PREAUTH_FAILED", "the KDC has another key of " + user + ": the keytab is old, or of another one", true},
		{"integrity verification failed", "the KDC has another key of " + user + ": the keytab is old, or of another one", true},
		{"matching key not found in keytab", "the keytab has no key of " + user + " of an encryption type that the KDC takes", true},
		{"KDC_ERR_ETYPE_NOSUPP", "the KDC has no key of an encryption type that " + c.Krb5Conf + " and this client take, which is AES, for " + user + " or " + server, true},
		{"KDC_ERR_WRONG_REALM", "the KDC is not of the realm of " + user + ": check the realm, and krb5.conf", true},
		{"KDC_ERR_CLIENT_REVOKED", "the KDC has locked " + user, true},
		{"KDC_ERR_KEY_EXPIRED", "the key of " + user + " has expired", true},
		{"KDC_ERR_NAME_EXP", "the principal " + user + " has expired", true},
		{"KDC_ERR_SERVICE_EXP", "the servers' principal " + server + " has expired", true},
		{"KRB_AP_ERR_SKEW", "this machine's clock and the KDC's differ by too much: see that NTP runs on both", false},
		{"clock skew", "this machine's clock and the KDC's differ by too much: see that NTP runs on both", false},
		{"KRB_AP_ERR_TKT_EXPIRED", "the ticket of " + user + " has ended: call kinit, or see what should renew it", false},
		{"no KDCs defined", c.Krb5Conf + " names no KDC", true},
		{"no KDC SRV records", "neither " + c.Krb5Conf + " nor DNS names a KDC", false},
		{"communicat", "no KDC answers", false},
	} {
		if strings.Contains(text, known.contains) {
			if known.final {
				return fmt.Errorf("%w: %s: %w", backend.ErrDenied, known.says, err)
			}
			return fmt.Errorf("%s: %w", known.says, err)
		}
	}
	return err
}
