package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// A release is of all modules of a repository that users import or install, at one version.
//
// In the repository they require each other at v0.0.0, which replace lines point to the
// folders beside them: so each builds by its own go.mod, before there is any version of the
// others. In a release they require each other at its version, without a replace, because
// "go install MODULE@latest" refuses a module that has one. That is a commit of its own,
// beside the branch; only its tags lead there. The library needs none, so its tag is on the
// branch.
type release struct {
	root    string // of the repository
	version string
	say     func(format string, args ...any)
}

// A part is a module of a release.
type part struct {
	folder   string // in the repository; "" is the library
	path     string
	requires []string // paths of the other parts
}

func (p part) tag(version string) string { return path.Join(p.folder, version) }

// make makes the release in a clone, and installs the commands from there as a user does. With
// tag it leaves tags, and else nothing.
func (r release) make(ctx context.Context, tag bool) (err error) {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version || semver.Major(r.version) > "v1" {
		return fmt.Errorf("version %q: say it as v0.1.0; from v2 on the module's path has to have it", r.version)
	}
	if err := committed(ctx, r.root); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "elector-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree := filepath.Join(temp, "tree")
	if err := clone(ctx, r.root, tree); err != nil {
		return err
	}
	parts, err := find(ctx, tree)
	if err != nil {
		return err
	}
	push := "git push origin"
	for _, p := range parts {
		if found, err := output(ctx, r.root, nil, "git", "tag", "--list", p.tag(r.version)); err != nil {
			return err
		} else if found != "" {
			return fmt.Errorf("there is a tag %s already, and a version cannot be taken back", found)
		}
		push += " " + p.tag(r.version)
	}
	site := proxy(filepath.Join(temp, "proxy"))
	env, err := clean(ctx, site, temp)
	if err != nil {
		return err
	}
	if err := r.publish(ctx, parts, tree, site, env); err != nil {
		return err
	}
	if err := r.install(ctx, parts, temp, env); err != nil {
		return err
	}
	if !tag {
		r.say("Nothing was changed. With -tag the tags are made, and this publishes them:\n\n    %s", push)
		return nil
	}
	if err := r.mark(ctx, parts, tree); err != nil {
		return err
	}
	r.say("The tags are made. Look at them, and publish them, all in one push:\n\n    %s", push)
	return nil
}

// committed returns an error if a repository has changes that are not.
func committed(ctx context.Context, root string) error {
	changed, err := output(ctx, root, nil, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("commit first, a release is of what is committed:\n%s", changed)
	}
	return err
}

// clone clones what a repository has checked out, for commits by the same user.
func clone(ctx context.Context, root, to string) error {
	if _, err := output(ctx, "", nil, "git", "clone", "--quiet", root, to); err != nil {
		return err
	}
	for _, key := range []string{"user.name", "user.email"} {
		who, err := output(ctx, root, nil, "git", "config", key)
		if err != nil {
			return fmt.Errorf("git needs %s for the commits of a release: %w", key, err)
		}
		if _, err := output(ctx, to, nil, "git", "config", key, who); err != nil {
			return err
		}
	}
	return nil
}

// publish commits each part as it is to be released, and adds it to the site.
func (r release) publish(ctx context.Context, parts []part, tree string, site proxy, env []string) error {
	stamp, err := output(ctx, tree, nil, "git", "show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.folder != "" {
			if err := r.pin(ctx, tree, p, env); err != nil {
				return fmt.Errorf("%s: %w", p.path, err)
			}
		}
		if err := site.publish(module.Version{Path: p.path, Version: r.version}, tree, "HEAD", p.folder, at); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return nil
}

// mark makes the tags: the library's on the branch, the others' on the commits of the clone.
func (r release) mark(ctx context.Context, parts []part, tree string) error {
	beside, err := output(ctx, tree, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if _, err := output(ctx, r.root, nil, "git", "fetch", "--quiet", "--no-tags", tree, beside); err != nil {
		return err
	}
	for _, p := range parts {
		commit := beside
		if p.folder == "" {
			commit = "HEAD"
		}
		if _, err := output(ctx, r.root, nil, "git", "tag", "-a", "-m", p.path+" "+r.version, p.tag(r.version), commit); err != nil {
			return err
		}
	}
	return nil
}

// find returns the parts of a release, each after those that it requires: all modules but
// examples, and what only those need who work on the library.
func find(ctx context.Context, tree string) (parts []part, err error) {
	files, err := output(ctx, tree, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	all := make(map[string]part)
	requires := make(map[string]*modfile.File)
	for file := range strings.FieldsSeq(files) {
		words := strings.Split(path.Dir(file), "/")
		if slices.Contains(words, "internal") || slices.Contains(words, "examples") || slices.Contains(words, "testdata") {
			continue
		}
		f, err := parse(filepath.Join(tree, file))
		if err != nil {
			return nil, err
		}
		p := part{path: f.Module.Mod.Path}
		if file != "go.mod" {
			p.folder = path.Dir(file)
		}
		all[p.path], requires[p.path] = p, f
	}
	// By depth, so that what is required comes first.
	var add func(name string)
	added := make(map[string]bool)
	add = func(name string) {
		if added[name] {
			return
		}
		added[name] = true
		p := all[name]
		for _, other := range requires[name].Require {
			if _, ours := all[other.Mod.Path]; ours {
				p.requires = append(p.requires, other.Mod.Path)
				add(other.Mod.Path)
			}
		}
		parts = append(parts, p)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		add(name)
	}
	return parts, nil
}

func parse(file string) (*modfile.File, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(file, data, nil)
}

// pin has a part require the others at the release's version, from where everybody gets
// them, and commits that. The licence goes with it, because a module is what is in its folder.
func (r release) pin(ctx context.Context, tree string, p part, env []string) error {
	dir := filepath.Join(tree, filepath.FromSlash(p.folder))
	f, err := parse(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for _, other := range p.requires {
		if err := f.AddRequire(other, r.version); err != nil {
			return err
		}
	}
	for _, line := range slices.Clone(f.Replace) {
		if line.New.Version != "" {
			return fmt.Errorf("go.mod replaces %s with %s: a release cannot", line.Old, line.New)
		}
		if !slices.Contains(p.requires, line.Old.Path) {
			return fmt.Errorf("go.mod replaces %s, which is no part of the release", line.Old.Path)
		}
		if err := f.DropReplace(line.Old.Path, line.Old.Version); err != nil {
			return err
		}
	}
	f.Cleanup()
	data, err := f.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), data, 0o666); err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), licence, 0o666); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"go", "mod", "tidy"}, {"git", "add", "."},
		{"git", "commit", "--quiet", "--no-verify", "-m", "Release " + p.tag(r.version) + ": it requires what is released with it, and replaces nothing"},
	} {
		if _, err := output(ctx, dir, env, step[0], step[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// clean is an environment in which the go command has only what is published: a module cache
// of its own, filled from the site and from what this machine has, so that a trial leaves no
// version in the user's own.
func clean(ctx context.Context, site proxy, temp string) ([]string, error) {
	have, err := output(ctx, "", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, next, _ := strings.Cut(have, "\n")
	return []string{
		"GOWORK=off",
		"GOPROXY=" + site.url() + "," + proxy(filepath.Join(cache, "cache", "download")).url() + "," + next,
		"GONOSUMDB=github.com/elector-go/elector",
		"GOMODCACHE=" + filepath.Join(temp, "cache"),
		"GOBIN=" + filepath.Join(temp, "bin"),
		"GOFLAGS=-modcacherw -trimpath", // a cache that can be removed; what was built here once is not built again
	}, nil
}

// install gets every part as a user does, and runs the commands.
func (r release) install(ctx context.Context, parts []part, temp string, env []string) error {
	for _, p := range parts {
		got, err := output(ctx, temp, env, "go", "list", "-m", "-f", "{{.Version}}", p.path+"@latest")
		if err != nil {
			return err
		}
		r.say("%s@latest is %s", p.path, got)
		if !strings.HasPrefix(p.folder, "cmd/") {
			continue
		}
		if _, err := output(ctx, temp, env, "go", "install", p.path+"@latest"); err != nil {
			return err
		}
		name := path.Base(p.path)
		says, err := output(ctx, temp, nil, filepath.Join(temp, "bin", name), "--version")
		if err != nil {
			return err
		}
		r.say("go install %s@latest: %s", p.path, says)
		if !strings.Contains(says, r.version) {
			return fmt.Errorf("%s --version says %q, not %s", name, says, r.version)
		}
	}
	return nil
}
