package elector_test

import (
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elector-go/elector"
)

// These hold what CONTRIBUTING.md says under "To add …", as far as nothing else does.

// sources returns the Go code of a folder, with or without its tests.
func sources(t *testing.T, folder string, tests bool) string {
	t.Helper()
	var b strings.Builder
	for _, file := range tracked(t) {
		if path.Dir(file) == folder && path.Ext(file) == ".go" && strings.HasSuffix(file, "_test.go") == tests {
			text, err := os.ReadFile(file)
			if os.IsNotExist(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}

func page(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBackendPlaces holds that a backend is in all the places where a backend has to be.
func TestBackendPlaces(t *testing.T) {
	packages, list := list(t), makefile(t)
	for importPath := range packages {
		at, ok := own(importPath)
		name, isBackend := strings.CutPrefix(at, "backend/")
		if !ok || !isBackend || slices.Contains([]string{"dial", "driver", "meter"}, name) {
			continue
		}
		for _, c := range []struct {
			in, what string
			there    bool
		}{
			{at, "a test that calls conformance.TestBackend", strings.Contains(sources(t, at, true), "conformance.TestBackend")},
			{"backend/dial", "a scheme that opens it", slices.Contains(packages[module+"/backend/dial"].Imports, importPath)},
			{"README.md", "its row", strings.Contains(page(t, "README.md"), "[`"+at+"`]")},
			{"Makefile", "its name among services, and the tests of test-" + name, slices.Contains(list("services"), name) && strings.Contains(page(t, "Makefile"), "\ntest-"+name+":")},
			{"docs/backends.md", "a link to its DESIGN.md", name == "memory" || strings.Contains(page(t, "docs/backends.md"), "("+"../"+at+"/DESIGN.md")},
			{"internal/bench", "its name", name == "memory" || strings.Contains(sources(t, "internal/bench", false), `"`+name+`"`)},
			{"internal/chaos", "its name", name == "memory" || strings.Contains(sources(t, "internal/chaos", false), `"`+name+`"`)},
		} {
			if !c.there {
				t.Errorf("%s: %s is missing in %s", at, c.what, c.in)
			}
		}
	}
}

// makefile returns what reads a list of the Makefile, by its name.
func makefile(t *testing.T) (list func(name string) []string) {
	text := page(t, "Makefile")
	return func(name string) []string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + name + ` = ((?:.*\\\n)*.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the Makefile has no list %s", name)
		}
		return strings.Fields(m[1])
	}
}

// TestMakefile holds that make test tries each package with tests.
func TestMakefile(t *testing.T) {
	list := makefile(t)
	tried := slices.Concat(list("RACED"), list("MEMORY"), list("BACKENDS"), list("SERVED"), list("TOOLS"), []string{"./internal/elections"})
	for _, file := range tracked(t) {
		at := path.Dir(file)
		if !strings.HasSuffix(file, "_test.go") || slices.ContainsFunc(list("MODULES"), func(m string) bool { return m != "." && within(at, m) }) ||
			slices.ContainsFunc(list("TESTED"), func(m string) bool { return within(at, m) }) {
			continue
		}
		if !slices.ContainsFunc(tried, func(p string) bool {
			folder, all := strings.CutSuffix(p, "/...")
			folder = path.Clean(folder)
			return at == folder || all && within(at, folder)
		}) {
			t.Errorf("the Makefile has no line that tries the tests of %s", at)
		}
	}
}

// TestHookPlaces holds that each hook is called by run, without which a hook that calls back
// would wait for itself, and that somebody calls what calls it.
func TestHookPlaces(t *testing.T) {
	code := sources(t, ".", false)
	for hook := range reflect.TypeFor[elector.Hooks]().Fields() {
		all := strings.Count(code, "h."+hook.Name+"(")
		if wrapped := strings.Count(code, "h.run(func() { h."+hook.Name+"("); all == 0 || wrapped != all {
			t.Errorf("hook %s is called %d times, %d of them by run", hook.Name, all, wrapped)
		}
	}
	methods := regexp.MustCompile(`(?m)^func \(h \*hooks\) (\w+)\(`).FindAllStringSubmatch(code, -1)
	if len(methods) == 0 {
		t.Error("hooks has no methods")
	}
	for _, m := range methods {
		if !regexp.MustCompile(`\b(hooks|own|h)\.` + m[1] + `\(`).MatchString(code) {
			t.Errorf("nothing calls the method %s of hooks", m[1])
		}
	}
}
