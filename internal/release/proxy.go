package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A proxy is a folder in which the go command finds modules, as it does on proxy.golang.org:
// GOPROXY=file://FOLDER. The layout is that of https://go.dev/ref/mod#goproxy-protocol.
type proxy string

func (p proxy) url() string { return "file://" + filepath.ToSlash(string(p)) }

// publish adds a module as it is in a commit of a repository. It takes what a public proxy
// takes, so that the checksums are the same.
func (p proxy) publish(m module.Version, repository, commit, folder string, at time.Time) (err error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(string(p), filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(repository, folder, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, at.UTC()})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(m.Version + "\n"), m.Version + ".mod": mod, m.Version + ".info": info} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromVCS(f, m, repository, commit, folder); err != nil {
		_ = f.Close() // it is of no use
		return err
	}
	return f.Close()
}
