package elector_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elector-go/elector/internal/must"
)

const module = "github.com/elector-go/elector"

// A listed package is the output of `go list -json` for it.
type listed struct {
	ImportPath, Name, Doc     string
	GoFiles, Imports          []string
	TestImports, XTestImports []string
}

// own returns the path of a package in this module, "." for the root, or its import path if it is another
// module's.
func own(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// list returns the packages of this module by folder.
func list(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports,GoFiles,TestImports,XTestImports", "./...")
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
		packages[own(p.ImportPath)] = p
	}
}

// within reports whether a package is in a list, in which "x/..." means x and everything below it.
func within(at string, list ...string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		folder, all := strings.CutSuffix(p, "/...")
		return at == folder || all && strings.HasPrefix(at, folder+"/")
	})
}

// imports lists what packages may import, apart from the standard library without testing, and packages
// below themselves. The first rule for a package counts.
//
// Imports go down only. A program that uses one backend compiles no other backend and none of their
// clients.
var imports = []struct{ of, may, why string }{
	{".", "backend strategy internal/asynclog internal/delay internal/election internal/layout internal/unhurried", "every user compiles it"},
	{"strategy", "backend internal/delay", "every user compiles it"},
	{"backend", "internal/unhurried", "every user compiles it"},
	{"internal/asynclog", "", "every user compiles it"},
	{"internal/election", "backend strategy internal/delay internal/layout", "every user compiles it"},
	{"internal/delay", "", "every user compiles it"},
	{"internal/unhurried", "", "every user compiles it"},
	{"internal/layout", "", "every user compiles it"},
	{"internal/companion", "", "every user compiles it"},
	{"backend/driver", "backend internal/asynclog internal/companion", "backends build on it"},
	{"backend/memory", "backend backend/driver", "users' tests compile it"},
	{"backend/register", "backend backend/driver", "it serves every store"},
	{"backend/zookeeper/internal/wire", "github.com/go-zookeeper/zk", "it knows no entries and no elections"},
	{"backend/zookeeper/internal/wire/wiretest", "testing github.com/stretchr/testify/... internal/must", "tests use it"},
	{"tlsfiles", "", "it serves every client"},
	{"backend/zookeeper/...", "backend backend/driver internal/asynclog tlsfiles github.com/go-zookeeper/zk", "it brings no client but its own"},
	{"backend/etcd/...", "backend backend/driver internal/asynclog go.etcd.io/etcd/... google.golang.org/grpc/...", "it brings no client but its own"},
	{"backend/consul/...", "backend backend/driver internal/asynclog github.com/hashicorp/consul/api/...", "it brings no client but its own"},
	{"backend/meter", "backend", "it serves every service"},
	{"backend/dial", "backend/... tlsfiles internal/asynclog internal/environment internal/etcdclient github.com/hashicorp/consul/api/... go.etcd.io/etcd/... go.uber.org/zap/... google.golang.org/grpc/...", "it opens backends, and knows no elections"},
	{"strategy/catalog", "strategy/...", "a strategy serves every service"},
	{"strategy/...", "strategy backend internal/layout strategy/entries", "a strategy serves every service, and what two share is in strategy/entries"},
	{"fence", ". backend", "the driver of the database is the user's own"},
	{"health", ". backend", "it serves every service"},
	{"inspect", ". backend internal/election internal/layout strategy strategy/...", "it serves every service"},
	{"lastwill", "backend internal/asynclog internal/companion golang.org/x/sys/unix", "it serves every service"},
	{"conformance/...", "testing . strategy backend backend/memory backend/meter conformance/... internal/asynclog/... internal/election internal/layout internal/wait " +
		"github.com/anishathalye/porcupine golang.org/x/sys/unix", "it serves every service"},
}

// TestImports checks who may import whom. Programs and tests may import anything; every other package
// needs a rule.
func TestImports(t *testing.T) {
	for at, p := range list(t) {
		i := slices.IndexFunc(imports, func(r struct{ of, may, why string }) bool { return within(at, r.of) })
		if i < 0 {
			if !within(at, "examples/...", "internal/...") && len(p.GoFiles) > 0 {
				t.Errorf("no rule says what %s may import", at)
			}
			continue
		}
		may := append(strings.Fields(imports[i].may), at+"/...")
		for _, dep := range p.Imports {
			first, _, _ := strings.Cut(dep, "/")
			if standard := !strings.Contains(first, ".") && dep != "testing"; !standard && !within(own(dep), may...) {
				t.Errorf("%s imports %s: %s, so it may import no more than %s", at, dep, imports[i].why, may)
			}
		}
	}
}

// TestPackageDocs checks that each package says what it is for.
func TestPackageDocs(t *testing.T) {
	for at, p := range list(t) {
		if want := "Package " + p.Name + " "; len(p.GoFiles) > 0 && (p.Doc == "" || p.Name != "main" && !strings.HasPrefix(p.Doc, want)) {
			t.Errorf("%s: its package comment must begin with %q", at, want)
		}
	}
}

// isBackend reports whether a package is the backend of one service. A register is opened with a store of the
// user's own.
func isBackend(at string) bool {
	return path.Dir(at) == "backend" && !within(at, "backend/dial", "backend/driver", "backend/meter", "backend/register")
}

// TestBackends checks that the suite tests each backend, and that a URL opens it.
func TestBackends(t *testing.T) {
	packages := list(t)
	for at, p := range packages {
		if !isBackend(at) {
			continue
		}
		if !slices.Contains(slices.Concat(p.TestImports, p.XTestImports), module+"/conformance") {
			t.Errorf("%s: no test imports conformance, to call TestBackend", at)
		}
		if !slices.Contains(packages["backend/dial"].Imports, p.ImportPath) {
			t.Errorf("%s: backend/dial has no scheme that opens it", at)
		}
	}
}

// TestMakefile checks that make test runs each package with tests.
func TestMakefile(t *testing.T) {
	packages := list(t)
	text := must.Get(os.ReadFile("Makefile"))(t)
	list := func(name string) []string {
		m := regexp.MustCompile(`(?m)^` + name + ` = ((?:.*\\\n)*.*)$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the Makefile has no list %s", name)
		}
		return strings.Fields(string(m[1]))
	}
	tried := slices.Concat(list("RACED"), list("MEMORY"), list("BACKENDS"), list("SERVED"), list("TOOLS"), []string{"./internal/elections", "./strategy/..."})
	for at := range packages {
		if isBackend(at) {
			tried = append(tried, at) // $(SERVICES)
		}
	}
	for _, m := range list("TESTED") {
		tried = append(tried, m+"/...")
	}
	for i, p := range tried {
		if p != "." {
			tried[i] = strings.TrimPrefix(p, "./")
		}
	}
	for _, file := range tracked(t) {
		if at := path.Dir(file); strings.HasSuffix(file, "_test.go") && !within(at, tried...) {
			t.Errorf("the Makefile has no line that tries the tests of %s", at)
		}
	}
}
