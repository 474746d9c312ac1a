package services_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/copytest"
	"github.com/elector-go/elector/internal/must"
)

// anotherOpened opens a backend by the client of etcd.
const anotherOpened = `package dial

import (
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/backend/invented"
)

func init() {
	Register(Scheme{Name: "inv", Usage: "inv://host[:port],...", Port: "2379", Params: []string{"timeout"}, Secret: "leave them out", Open: openInvented})
}

func openInvented(t *Target) (backend.Backend, func() error, error) {
	b, close, err := openEtcd(t)
	if err != nil {
		return nil, nil, err
	}
	in, err := invented.New(b.(*etcd.Backend).Client(), invented.Config{SessionTimeout: t.Timeout, Logger: t.Logger})
	return in, close, err
}
`

// anotherTried tries the suite on it.
const anotherTried = `package invented_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/services"
)

func TestConformance(t *testing.T) {
	i := slices.IndexFunc(services.All, func(s services.Service) bool { return s.Name == "invented" })
	at := []string{services.All[i].ForTest(t).Addr()}
	var roots atomic.Int64
	conformance.TestBackend(t, func(testing.TB) *conformance.Service {
		return &conformance.Service{
			Name: "invented", Root: fmt.Sprintf("/invented/%d", roots.Add(1)), TTL: 10 * time.Second,
			Delete: func(key string) error { return etcdtest.DeleteAll(at, key) },
			Put:    func(key string, value []byte) error { return etcdtest.PutAll(at, key, value) },
			Client: func(t testing.TB) *conformance.Client {
				process := services.Remote{URL: services.All[i].URL(at[0], time.Minute)}
				c := must.Get(process.Client())(t)
				t.Cleanup(func() { _ = c.Close() })
				return &conformance.Client{Backend: c.Backend, Suspend: c.Cut, Resume: c.Mend}
			},
			Why: map[string]string{conformance.Rest: "it is invented"},
		}
	})
}
`

// anotherUsed uses it by the command.
const anotherUsed = `package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/services"
)

func TestUsed(t *testing.T) {
	services.OnEach(t, func(t *testing.T, s services.Service) {
		if s.Name != "invented" {
			t.Skip("it was there before")
		}
		url := s.URL(s.ForTest(t).Addr(), time.Minute)
		out, _ := run(t, OK, "doctor", url)
		assert.Contains(t, out, "fit for elections")
		out, _ = run(t, OK, "compare", "--backend", url, "--strategy", "fair", "--n", "3", "--changes", "3", "--crashes", "0")
		assert.Contains(t, out, "not asked for figures")
		out, _ = run(t, OK, "__complete", "compare", "--backend", "")
		assert.Contains(t, out, "inv://")
	})
}
`

// TestAnother adds a backend, which is etcd's under another name, to a copy of the repository in the places
// that docs/internals/maintain.md names. Tests, tools and make find it, and nothing asks for another place.
func TestAnother(t *testing.T) {
	c := copytest.New(t)
	for _, file := range must.Get(filepath.Glob("../../backend/etcd/*.go"))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := string(must.Get(os.ReadFile(file))(t))
		renamed := strings.NewReplacer("package etcd\n", "package invented\n", "Package etcd ", "Package invented ", `return "etcd"`, `return "invented"`).Replace(text)
		c.Write("backend/invented/"+filepath.Base(file), renamed)
	}
	c.Write("backend/invented/DESIGN.md", "# Invented\n\nAs etcd's.\n")
	c.Write("backend/invented/conformance_test.go", anotherTried)
	c.Write("backend/dial/invented.go", anotherOpened)
	c.Insert("internal/services/service.go", "}\n\nvar (", `, {"invented", "inv", []string{"timeout"}, Etcd.Start}`)
	c.Insert("habits_test.go", "\t{\"backend/meter\",", "\t{\"backend/invented\", \"backend backend/driver internal/asynclog go.etcd.io/etcd/... google.golang.org/grpc/...\", \"it brings no client but its own\"},\n")
	c.Insert("docs/backends.md", "| **memory** |", "| **invented** | 10 s | it is invented |\n")

	c.Go(".", "test", "-short", "-run", "TestPage|TestMakefile|TestBackends|TestImports|TestObservability", ".")
	c.Go(".", "test", "-short", "./internal/services")
	c.Finds("invented", ".", "./inspect", "-run", "^TestOnServers$/^invented$")
	c.Finds("invented", ".", "./lastwill", "-run", "^TestOnServers$/^invented$")
	c.Finds("invented", ".", "./examples/controller", "-run", "^TestProcesses$/^invented$")
	c.Finds("invented", ".", "./backend/dial", "-run", "^TestWithDialContext$/^invented$")
	c.Finds("inv", ".", "./backend/dial", "-run", "^TestCauses$/^inv$")
	c.Finds("invented", "cmd/elector", "./internal/dashboard", "-run", "^TestOnServers$/^invented$")
	c.Write("cmd/elector/internal/cli/used_test.go", anotherUsed)
	c.Finds("invented", "cmd/elector", "./internal/cli", "-run", "^TestLook$|^TestUsed$/^invented$")
	c.Go(".", "test", "./backend/invented", "-run", "^TestConformance$/^rules$/^await$")
	said := c.Run(".", "make", "-n", "test", "SERVICE=invented")
	assert.Contains(t, said, "-skip '(?i)^Test(memory|consul|etcd|zookeeper)' ./backend/invented/... ./internal/elections")
	assert.Contains(t, c.Run(".", "make", "-n", "test-backends"), " ./backend/invented ")
}
