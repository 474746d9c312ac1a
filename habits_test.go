package elector_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/elector-go/elector"

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Name, Doc  string
	Imports, Deps, GoFiles []string
}

func list(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Doc,Imports,Deps,GoFiles", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	packages := make(map[string]listed)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// own tells whether path is in this module, and where.
func own(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// clients are the modules that backends may import; grpc is how etcd's client says what
// is wrong.
var clients = map[string][]string{
	"backend/zookeeper": {"github.com/go-zookeeper/zk"},
	"backend/etcd":      {"go.etcd.io/etcd", "google.golang.org/grpc"},
	"backend/consul":    {"github.com/hashicorp/consul/api"},
}

// within tells whether a package is in one of the folders.
func within(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path == folder || strings.HasPrefix(path, folder+"/")
	})
}

// mayImport is the house rule: arrows point down only, and who uses one backend does
// not compile another. It returns why the package at must not import dep, directly or
// by way of others, or "".
func mayImport(at, dep string, direct bool) string {
	to, isOwn := own(dep)
	switch {
	case dep == "testing" && within(at, ".", "backend", "fence", "inspect", "strategy", "internal/layout"):
		return "no tests in a user's program: they are for conformance and internal packages"
	case !isOwn && standard(dep), within(at, "examples", "cmd", "internal") && at != "internal/layout" && at != "internal/companion" && at != "internal/asynclog":
		return ""
	case to == "internal/companion" && at != "." && at != "backend", to == "internal/asynclog" && at != "backend":
		return ""
	case at == "backend/dial":
		if isOwn && !within(to, "backend") && to != "internal/etcdclient" {
			return "only backends, of which it imports all, and what closes etcd's client"
		}
	case to == "backend/dial":
		return "nobody but programs: it brings the clients of all services along"
	case at == ".":
		if to != "backend" && to != "internal/layout" {
			return "only backend and the standard library, for every user compiles it"
		}
	case at == "backend", at == "internal/layout", at == "internal/companion", at == "internal/asynclog":
		return "only the standard library, for every user compiles it"
	case within(at, "backend"):
		// What a client needs in turn is the client's business.
		if isOwn && to != "backend" && to != "backend/driver" || !isOwn && direct && !within(dep, clients[at]...) {
			return "only backend, backend/driver and its own client; never the root, a strategy or another backend"
		}
	case at == "fence":
		if isOwn && to != "." && to != "backend" && to != "internal/layout" || !isOwn && direct {
			return "only the root and the standard library: the driver is the user's own"
		}
	case within(at, "strategy"):
		if !isOwn || within(to, "backend") && to != "backend" || within(to, "conformance") {
			return "only the root and backend, for a strategy serves every service"
		}
		if within(to, "strategy") && to != at && !within(to, "strategy/entries") && at != "strategy/catalog" {
			return "no other strategy: what they share is in strategy/entries"
		}
	default:
		for _, client := range clients {
			if within(dep, client...) {
				return "no client of a service: a backend's package does"
			}
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	for path, p := range list(t) {
		at, ok := own(path)
		if !ok {
			continue
		}
		for _, dep := range p.Deps {
			if why := mayImport(at, dep, slices.Contains(p.Imports, dep)); why != "" {
				t.Errorf("%s imports %s: %s", at, dep, why)
			}
		}
	}
}

// TestImportRule holds that the rule bites.
func TestImportRule(t *testing.T) {
	const etcd, consul, zk = "go.etcd.io/etcd/client/v3", "github.com/hashicorp/consul/api", "github.com/go-zookeeper/zk"
	for _, c := range []struct {
		at, dep string
		allowed bool
	}{
		{".", module + "/backend", true},
		{".", module + "/backend/memory", false},
		{".", module + "/backend/dial", false},
		{".", etcd, false},
		{"backend", module, false},
		{"backend", consul, false},
		{"backend/etcd", etcd, true},
		{"backend/etcd", "google.golang.org/grpc/codes", true},
		{"backend/etcd", consul, false},
		{"backend/etcd", module + "/backend/consul", false},
		{"backend/etcd", module + "/backend/dial", false},
		{"backend/etcd", module, false},
		{"backend/zookeeper", zk, true},
		{"backend/zookeeper", etcd, false},
		{"backend/consul", consul, true},
		{"backend/consul", consul + "/watch", true},
		{"backend/consul", consul + "x", false},
		{"backend/memory", zk, false},
		{"backend/dial", etcd, true},
		{"backend/dial", module + "/backend/etcd", true},
		{"backend/dial", module, false},
		{"backend/dial", module + "/internal/etcdclient", true},
		{"backend/dial", module + "/internal/layout", false},
		{"strategy/fair", module, true},
		{"strategy/fair", module + "/backend/dial", false},
		{"strategy/fair", etcd, false},
		{"strategy/parentwatch", module + "/backend", true},
		{"strategy/parentwatch", module + "/strategy/entries", true},
		{"strategy/parentwatch", module + "/strategy/fair", false},
		{"strategy/parentwatch", module + "/backend/zookeeper", false},
		{"strategy/catalog", module + "/strategy/fair", true},
		{"strategy/catalog", module + "/backend/memory", false},
		{"strategy/catalog", module + "/conformance", false},
		{"strategy/catalog", "testing", false},
		{"strategy/fair", module + "/strategy/catalog", false},
		{"strategy/fair", module + "/conformance/history", false},
		{"backend/memory", "testing", false},
		{"conformance", module + "/strategy/catalog", true},
		{"conformance", "testing", true},
		{".", module + "/strategy/catalog", false},
		{"backend", module + "/strategy/catalog", false},
		{"strategy/entries", module, true},
		{"strategy/entries", module + "/strategy/fair", false},
		{"conformance", module + "/strategy/fair", true},
		{"conformance", module + "/backend/dial", false},
		{"conformance", zk, false},
		{"inspect", module + "/strategy/catalog", true},
		{"inspect", module + "/internal/layout", true},
		{"inspect", module + "/backend/dial", false},
		{"inspect", etcd, false},
		{"inspect", "testing", false},
		{"fence", module, true},
		{"fence", "database/sql", true},
		{"fence", "github.com/jackc/pgx/v5", false},
		{"fence", module + "/strategy/fair", false},
		{"fence", "testing", false},
		{"internal/layout", module + "/backend/dial", false},
		{"internal/bench", module + "/backend/dial", true},
		{"internal/bench", etcd, true},
		{"cmd/elector", module + "/backend/dial", true},
		{"examples/singleton", module + "/backend/dial", true},
	} {
		if why := mayImport(c.at, c.dep, true); (why == "") != c.allowed {
			t.Errorf("may %s import %s? %t, %q", c.at, c.dep, why == "", why)
		}
	}
}

// TestPackageDocs holds that each package says what it is for.
func TestPackageDocs(t *testing.T) {
	for path, p := range list(t) {
		if _, ok := own(path); !ok || len(p.GoFiles) == 0 {
			continue
		}
		if want := "Package " + p.Name + " "; p.Name != "main" && !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: package comment must begin with %q", path, want)
		}
		if p.Doc == "" {
			t.Errorf("%s: no package comment", path)
		}
	}
}
