package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is a repository of its own with what is in the working tree, committed or not.
func repository(t *testing.T) string {
	t.Helper()
	top := must(t, "", "git", "rev-parse", "--show-toplevel")
	copied := t.TempDir()
	for name := range strings.SplitSeq(must(t, top, "git", "ls-files", "--cached", "--others", "--exclude-standard"), "\n") {
		if err := copyFile(filepath.Join(copied, name), filepath.Join(top, name)); err != nil && !os.IsNotExist(err) { // deleted, and not committed yet
			t.Fatal(err)
		}
	}
	must(t, copied, "git", "init", "--quiet", "--initial-branch=main")
	must(t, copied, "git", "config", "user.name", "release test")
	must(t, copied, "git", "config", "user.email", "test@localhost")
	must(t, copied, "git", "add", ".")
	must(t, copied, "git", "commit", "--quiet", "-m", "the working tree")
	return copied
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, info.Mode())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// offline has modules come from this machine's cache: what other modules are is no matter here.
func offline(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOSUMDB", "off")
}

// TestRelease publishes the working tree as a version, as a release does, installs the command
// by "go install …@latest" into an empty module cache, and runs it.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds every module from nothing: make test-all")
	}
	root := repository(t)
	var said strings.Builder
	r := release{root, "v0.9.1", func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}
	if err := r.make(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Log(said.String())
	for _, want := range []string{
		"github.com/elector-go/elector@latest is v0.9.1\n",
		"go install github.com/elector-go/elector/cmd/elector@latest: elector version v0.9.1, go",
		"git push origin v0.9.1 ", " cmd/elector/v0.9.1",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	// The library's tag is on the branch, the others' are beside it, and replace nothing.
	if tagged, head := must(t, root, "git", "rev-parse", "v0.9.1^{commit}"), must(t, root, "git", "rev-parse", "main"); tagged != head {
		t.Errorf("v0.9.1 is %s, and the branch %s", tagged, head)
	}
	mod := must(t, root, "git", "show", "cmd/elector/v0.9.1:cmd/elector/go.mod")
	if strings.Contains(mod, "replace") || !strings.Contains(mod, "github.com/elector-go/elector v0.9.1") {
		t.Errorf("cmd/elector's go.mod:\n%s", mod)
	}
	if got := must(t, root, "git", "status", "--porcelain"); got != "" {
		t.Errorf("it left changes:\n%s", got)
	}
	// A version is published once.
	if err := r.make(t.Context(), true); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("the same version again: %v", err)
	}
}

// TestParts holds which modules a release has, each after those that it needs.
func TestParts(t *testing.T) {
	top := must(t, "", "git", "rev-parse", "--show-toplevel")
	parts, err := find(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, p := range parts {
		for _, needed := range p.requires {
			if !slices.Contains(seen, needed) {
				t.Errorf("%s comes before %s", p.path, needed)
			}
		}
		seen = append(seen, p.path)
	}
	for _, want := range []string{"github.com/elector-go/elector", "github.com/elector-go/elector/cmd/elector"} {
		if !slices.Contains(seen, want) {
			t.Errorf("%s is no part of a release: %v", want, seen)
		}
	}
	for _, p := range parts {
		if strings.Contains(p.folder, "internal") || strings.Contains(p.folder, "examples") {
			t.Errorf("%s is released", p.path)
		}
	}
}

// TestRefused holds what is found before anything is done.
func TestRefused(t *testing.T) {
	root := t.TempDir()
	must(t, root, "git", "init", "--quiet")
	for _, version := range []string{"", "0.1.0", "v1", "v0.1", "v2.0.0", "v0.1.0+linux"} {
		if err := (release{root: root, version: version}).make(t.Context(), false); err == nil || !strings.Contains(err.Error(), "say it as v0.1.0") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := (release{root: root, version: "v0.1.0"}).make(context.Background(), false); err == nil || !strings.Contains(err.Error(), "commit first") {
		t.Errorf("with changes: %v", err)
	}
}
