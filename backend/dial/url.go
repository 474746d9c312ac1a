package dial

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// parse parses a URL. Package net/url accepts no list of hosts with ports, and repeats the URL in its
// errors.
func parse(raw string) (*Target, error) {
	name, rest, isURL := strings.Cut(raw, "://")
	s, err := find(name)
	switch {
	case strings.Contains(raw, "@"):
		hint := "leave them out"
		if isURL && err == nil {
			hint = s.Secret
		}
		return nil, fmt.Errorf(`credentials ("@") don't belong into a URL, which is printed and logged: %s; a path has %%40 for "@"`, hint)
	case !isURL:
		name, _, _ = strings.Cut(raw, "?") // parameters may be secrets
		return nil, fmt.Errorf("%q is not a URL: %s", name, there())
	case err != nil:
		return nil, err
	}
	t := &Target{scheme: s, Params: make(map[string]string)}
	if err := t.parse(rest); err != nil {
		return nil, fmt.Errorf("%s://: %w", name, err)
	}
	return t, nil
}

// A Server is one server of a URL.
type Server struct {
	Address string // host:port
	URL     string // names this server alone, and is otherwise the same
}

// Servers returns the servers that a URL names, in its order, for programs that ask each of them. A
// scheme without hosts, such as mem://, has none. Servers resolves no names. The error for a wrong URL is that of Open.
func Servers(url string) ([]Server, error) {
	t, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	begin := t.scheme.Name + "://"
	rest := strings.TrimLeftFunc(url[len(begin):], func(r rune) bool { return r != '/' && r != '?' })
	var all []Server
	for _, address := range t.Servers {
		all = append(all, Server{address, begin + address + rest})
	}
	return all, nil
}

// parse parses what comes after the scheme, and reports everything that is wrong with it.
func (t *Target) parse(rest string) error {
	if strings.Contains(rest, "#") {
		return errors.New(`"#" has no meaning here: a path has %23 for it`)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, slash := strings.Cut(rest, "/")
	var errs []error
	if t.scheme.Port == "" {
		if t.Name = hosts; hosts != "" && !plain(hosts) {
			errs = append(errs, fmt.Errorf("name %q: letters, digits, dots, dashes and underscores only", hosts))
		}
		if slash && path == "" {
			errs = append(errs, errors.New("there is no path after the slash: leave the slash out, or give one"))
		}
	} else {
		for host := range strings.SplitSeq(hosts, ",") {
			server, err := parseHost(host, t.scheme.Port)
			if err != nil {
				errs = append(errs, err)
			}
			t.Servers = append(t.Servers, server)
		}
	}
	path, err := url.PathUnescape(path)
	if err == nil && path != "" {
		t.Path = "/" + path
		err = backend.CheckKey(t.Path)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("path: %w", err))
	}
	return errors.Join(append(errs, t.parseQuery(query))...)
}

// parseHost returns host:port for a host with or without a port.
func parseHost(s, port string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("a host is missing: give host or host:port, such as 127.0.0.1:%s", port)
	}
	host := s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	} else if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		host = s[1 : len(s)-1]
	}
	ip, err := netip.ParseAddr(host)
	switch isIP6 := err == nil && ip.Is6(); {
	case host == "":
		return "", fmt.Errorf("host %q: the host is missing before the port", s)
	case isIP6 && s[0] != '[':
		return "", fmt.Errorf("host %q: an IPv6 address stands in brackets: [%s]:%s", s, host, port)
	case !isIP6 && (!plain(host) || s[0] == '['):
		return "", fmt.Errorf("host %q: neither a host name nor an address, with or without a port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("host %q: port %q is not a number from 1 to 65535", s, port)
	}
	return net.JoinHostPort(host, port), nil
}

// plain reports whether s has only characters of host names.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_", r)
	})
}

func (t *Target) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	there := "there are none"
	if len(t.scheme.Params) > 0 {
		there = "there are " + strings.Join(t.scheme.Params, ", ")
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch value := values[name]; {
		case !slices.Contains(t.scheme.Params, name):
			err = fmt.Errorf("unknown parameter %q: %s", name, there)
		case len(value) > 1:
			err = fmt.Errorf("parameter %q is given %d times: give it once", name, len(value))
		default:
			err = t.set(name, value[0])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *Target) set(name, value string) (err error) {
	switch name {
	case "timeout":
		t.Timeout, err = duration(name, value)
	case "tls":
		on := value == "true"
		if t.TLS = &on; !on && value != "false" {
			return fmt.Errorf("parameter %q is %q: give true or false", name, value)
		}
	default:
		t.Params[name] = value
	}
	return err
}

func duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("parameter %q is %q: give a duration above zero, such as 10s", name, value)
	}
	return d, nil
}
