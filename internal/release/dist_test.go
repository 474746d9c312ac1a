package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestArchives holds that archives have what they were given, with the times that they were
// given, and that the same files make the same bytes.
func TestArchives(t *testing.T) {
	at := time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)
	files := []file{{"LICENSE", []byte("take it"), 0o644}, {"elector", bytes.Repeat([]byte("code"), 1000), 0o755}}
	var tarred, again, zipped, zippedAgain bytes.Buffer
	for _, err := range []error{tarball(&tarred, files, at), tarball(&again, files, at), zipFile(&zipped, files, at), zipFile(&zippedAgain, files, at)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(tarred.Bytes(), again.Bytes()) || !bytes.Equal(zipped.Bytes(), zippedAgain.Bytes()) {
		t.Error("the same files made other bytes")
	}
	plain, err := gzip.NewReader(&tarred)
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(plain)
	for _, want := range files {
		h, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil || h.Name != want.name || !bytes.Equal(data, want.data) || h.FileInfo().Mode() != want.mode || !h.ModTime.Equal(at) {
			t.Errorf("tar: %s, %v, %v, %d bytes, %v", h.Name, h.FileInfo().Mode(), h.ModTime, len(data), err)
		}
	}
	out, err := zip.NewReader(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range files {
		f := out.File[i]
		if f.Name != want.name || f.Mode() != want.mode || !f.Modified.Equal(at) || f.UncompressedSize64 != uint64(len(want.data)) {
			t.Errorf("zip: %s, %v, %v, %d bytes", f.Name, f.Mode(), f.Modified, f.UncompressedSize64)
		}
	}
}

// TestReleasedBinary holds that the command of an archive says its version.
func TestReleasedBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command: make test-all")
	}
	offline(t)
	files, err := build(t.Context(), "../..", "v0.9.2", target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.name != "elector" && f.name != "elector.exe" {
			continue
		}
		at := filepath.Join(t.TempDir(), f.name)
		if err := os.WriteFile(at, f.data, f.mode); err != nil {
			t.Fatal(err)
		}
		if says := must(t, "", at, "--version"); !strings.HasPrefix(says, "elector version v0.9.2, go") {
			t.Errorf("it says %q", says)
		}
		return
	}
	t.Error("no command in it")
}

// TestLicences holds that the licences of what is in the command go with it.
func TestLicences(t *testing.T) {
	offline(t)
	all, err := licences(t.Context(), "../../cmd/elector", []string{"GOWORK=off", "GOFLAGS="})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/spf13/cobra v", "github.com/go-zookeeper/zk v", "go.etcd.io/etcd/client/v3 v", "Go: LICENSE", "Apache License", "Redistribution and use"} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("nothing of %s", want)
		}
	}
	if own := []byte("github.com/elector-go/elector v"); bytes.Contains(all, own) {
		t.Errorf("%s is no third party", own)
	}
}
