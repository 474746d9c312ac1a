package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// A target is what an archive is for.
type target struct{ os, arch string }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// stamp is the variable of the command that says its version.
const stamp = "github.com/elector-go/elector/cmd/elector/internal/cli.release"

// A file is what an archive has under a name.
type file struct {
	name string
	data []byte
	mode os.FileMode
}

// archiveAll builds the command for all targets, and makes an archive of each and SHA256SUMS.
// The same commit and the same Go make the same bytes: all times are those of the commit.
func archiveAll(ctx context.Context, root, out, version string, targets []target) error {
	if !semver.IsValid(version) {
		return fmt.Errorf("version %q: say it as v0.1.0", version)
	}
	if err := committed(ctx, root); err != nil {
		return err
	}
	seconds, err := output(ctx, root, nil, "git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var sums strings.Builder
	for _, t := range targets {
		files, err := build(ctx, root, version, t)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("elector_%s_%s_%s", strings.TrimPrefix(version, "v"), t.os, t.arch)
		pack := tarball
		if t.os == "windows" {
			pack, name = zipFile, name+".zip"
		} else {
			name += ".tar.gz"
		}
		sum, err := write(filepath.Join(out, name), func(w io.Writer) error { return pack(w, files, time.Unix(unix, 0).UTC()) })
		if err != nil {
			return err
		}
		fmt.Printf("%x  %s\n", sum, name)
		fmt.Fprintf(&sums, "%x  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o666)
}

// write writes a file, and returns the checksum of what it has written.
func write(path string, fill func(io.Writer) error) ([]byte, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	err = fill(io.MultiWriter(f, sum))
	return sum.Sum(nil), errors.Join(err, f.Close())
}

// build builds the command, and returns it with what goes with it.
func build(ctx context.Context, root, version string, t target) ([]file, error) {
	temp, err := os.MkdirTemp("", "elector-dist-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(root, "cmd", "elector")
	env := []string{"GOWORK=off", "CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOFLAGS="}
	name := "elector"
	if t.os == "windows" {
		name += ".exe"
	}
	if _, err := output(ctx, dir, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X "+stamp+"="+version, "-o", filepath.Join(temp, name), "."); err != nil {
		return nil, err
	}
	notices, err := licences(ctx, dir, env)
	if err != nil {
		return nil, err
	}
	files := []file{{"THIRD_PARTY_LICENSES", notices, 0o644}}
	for _, f := range []struct {
		from, name string
		mode       os.FileMode
	}{{filepath.Join(temp, name), name, 0o755}, {filepath.Join(root, "LICENSE"), "LICENSE", 0o644}, {filepath.Join(root, "docs", "command.md"), "command.md", 0o644}} {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		files = append(files, file{f.name, data, f.mode})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

// licences are those of all modules whose code is in the command, and of Go, as most of them
// ask for.
func licences(ctx context.Context, dir string, env []string) ([]byte, error) {
	list, err := output(ctx, dir, env, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", ".")
	if err != nil {
		return nil, err
	}
	goRoot, err := output(ctx, dir, env, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := append(strings.Split(list, "\n"), "Go\t"+goRoot)
	slices.Sort(modules)
	var all strings.Builder
	for _, line := range slices.Compact(modules) {
		name, folder, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(name, "github.com/elector-go/elector") {
			continue
		}
		files, err := noticesIn(folder)
		if err != nil {
			return nil, err
		}
		before := all.Len()
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&all, "%[1]s\n%[2]s: %[3]s\n%[1]s\n\n%[4]s\n\n", strings.Repeat("=", 78), name, filepath.Base(path), strings.TrimSpace(string(text)))
		}
		if all.Len() == before {
			return nil, fmt.Errorf("%s has no licence in %s: it cannot be passed on", name, folder)
		}
	}
	return []byte(all.String()), nil
}

// noticesIn are the files of a folder that say who may do what with it, and those of its
// folder of licences.
func noticesIn(folder string) (files []string, err error) {
	all, err := os.ReadDir(folder)
	for _, entry := range all {
		name := strings.ToUpper(entry.Name())
		is := func(start string) bool { return strings.HasPrefix(name, start) }
		if !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, is) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		if !entry.IsDir() {
			files = append(files, path)
			continue
		}
		below, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, entry := range below {
			if !entry.IsDir() {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, err
}

// tarball writes files as a compressed tar archive.
func tarball(w io.Writer, files []file, at time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: int64(f.mode), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// zipFile writes files as a zip archive.
func zipFile(w io.Writer, files []file, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := archive.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}
