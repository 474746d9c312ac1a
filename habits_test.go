package elector_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
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

// TestImports holds the house rule: arrows point down only. Who uses one backend
// does not compile another.
func TestImports(t *testing.T) {
	client := map[string]string{"backend/zookeeper": "github.com/go-zookeeper/zk"}
	for path, p := range list(t) {
		at, ok := own(path)
		if !ok {
			continue
		}
		for _, dep := range p.Deps {
			to, isOwn := own(dep)
			if !isOwn && standard(dep) {
				continue
			}
			switch {
			case at == ".":
				if to != "backend" && !strings.HasPrefix(to, "internal/layout") {
					t.Errorf("the root imports %s: only backend and the standard library, for every user compiles it", dep)
				}
			case at == "backend":
				t.Errorf("backend imports %s: only the standard library, for it is the contract", dep)
			case strings.HasPrefix(at, "backend/"):
				if to != "backend" && !strings.HasPrefix(dep, client[at]+"/") && dep != client[at] {
					t.Errorf("%s imports %s: only backend and its own client; never the root, a strategy or another backend", at, dep)
				}
			case strings.HasPrefix(at, "strategy/"):
				if isOwn && (strings.HasPrefix(to, "backend/") || to == "conformance") || !isOwn {
					t.Errorf("%s imports %s: only the root and backend, for a strategy serves every service", at, dep)
				}
			}
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
