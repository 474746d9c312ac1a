package dial

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Scheme is one way to begin a URL. Port and Params may be empty.
type Scheme struct {
	Name   string   // such as "etcd"
	Usage  string   // how its URLs look, for help texts, such as "etcd://host[:port],.../prefix"
	Port   string   // of a host without one. Empty: its URLs have no hosts, but at most a name in their place
	Params []string // the parameters that its URLs may have
	Secret string   // where credentials belong, for the error of a URL that has some, such as "set ETCDCTL_USER"

	// Open opens a backend, as the function Open does: it does not connect and does not block. Close of the
	// Backend calls close once.
	Open func(*Target) (b backend.Backend, close func() error, err error)
}

// A Target is what a URL says, and what the options add to it.
type Target struct {
	Servers []string          // host:port; at least one if the scheme has a Port
	Name    string            // in place of hosts: "", or letters, digits, dots, dashes and underscores
	Path    string            // "" or a key, see backend.CheckKey
	Timeout time.Duration     // the parameter timeout; 0: not given
	TLS     *bool             // the parameter tls; nil: not given
	Params  map[string]string // the other parameters that were given

	Logger      *slog.Logger // of WithLogger; never nil for Open, and logging to it does not block
	DialContext DialContext  // of WithDialContext; nil: the client's own way

	scheme Scheme
}

// DialContext opens a connection, as net.Dialer.DialContext does. It must be safe for
// concurrent use.
type DialContext func(ctx context.Context, network, address string) (net.Conn, error)

// duration returns a parameter's value, or 0 if it was not given.
func (t *Target) duration(name string) (time.Duration, error) {
	value, given := t.Params[name]
	if !given {
		return 0, nil
	}
	return duration(name, value)
}

var registered struct {
	sync.Mutex
	all []Scheme
}

func init() {
	Register(zooKeeperScheme)
	Register(etcdScheme)
	Register(consulScheme)
	Register(memoryScheme)
}

// Register makes a scheme known to Open. It panics if the name is taken, or if a field is missing. The package
// that opens the backend calls it when it is initialized, so that a program only has to import it:
//
//	import _ "github.com/elector-go/elector/backend/nats/dialnats"
func Register(s Scheme) {
	if s.Name == "" || s.Usage == "" || s.Secret == "" || s.Open == nil {
		panic(fmt.Sprintf("dial: Register of %q: Name, Usage, Secret or Open is missing", s.Name))
	}
	registered.Lock()
	defer registered.Unlock()
	if slices.ContainsFunc(registered.all, func(r Scheme) bool { return r.Name == s.Name }) {
		panic(fmt.Sprintf("dial: Register of %q: the scheme is registered already", s.Name))
	}
	registered.all = append(registered.all, s)
}

// schemes returns all schemes.
func schemes() []Scheme {
	registered.Lock()
	defer registered.Unlock()
	return slices.Clone(registered.all)
}

// Schemes returns the names of all schemes that are registered.
func Schemes() []string {
	var names []string
	for _, s := range schemes() {
		names = append(names, s.Name)
	}
	return names
}

// Usage returns the help text of a flag that takes a URL.
func Usage() string {
	var all []string
	for _, s := range schemes() {
		all = append(all, s.Usage)
	}
	last := len(all) - 1
	all[last] = "or " + all[last]
	return "coordination service: " + strings.Join(all, ", ") +
		"; with ?timeout=10s for the session timeout, &tls=true, and for consul &check=2s"
}

// elsewhere are the packages that register the schemes of other modules of this repository.
var elsewhere = map[string]string{
	"k8s":  "github.com/elector-go/elector/backend/kubernetes/dialkubernetes",
	"nats": "github.com/elector-go/elector/backend/nats/dialnats",
}

// find returns the scheme of that name. The error says which there are.
func find(name string) (Scheme, error) {
	all := schemes()
	if i := slices.IndexFunc(all, func(s Scheme) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	hint := ""
	if at := elsewhere[name]; at != "" {
		hint = fmt.Sprintf("; this program lacks import _ %q, which brings %s://", at, name)
	}
	return Scheme{}, fmt.Errorf("unknown scheme %q: %s%s", name, there(), hint)
}

// there says which schemes there are.
func there() string { return "there are " + strings.Join(Schemes(), "://, ") + "://" }
