package servertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

// PrometheusConfig configures a Prometheus server.
type PrometheusConfig struct {
	// Config is the text of its configuration file. Paths in it are absolute.
	Config string

	// Dir is an existing folder in which the server makes a new folder for its files; by default
	// the system's folder for temporary files.
	Dir string

	// Log receives a copy of the server's output, which always goes to a file in the server's
	// folder. The writer must not block.
	Log io.Writer
}

// Prometheus is one Prometheus server process. Its methods may be called from any goroutine; those
// that start or end the process exclude each other.
type Prometheus struct{ *server }

// StartPrometheus starts a server of its own and blocks until it serves. The caller closes it.
func StartPrometheus(cfg PrometheusConfig) (*Prometheus, error) {
	path, err := program("prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	sites, err := (*networktest.Network)(nil).Take(1)
	if err != nil {
		return nil, err
	}
	ports, err := loopback.Ports(1)
	if err != nil {
		return nil, err
	}
	spec := process.Spec{Name: "Prometheus", Path: path, Dir: cfg.Dir, Log: cfg.Log}
	s, err := newServer("prometheus", spec, sites[0], ports)
	if err != nil {
		loopback.Release(ports...)
		return nil, err
	}
	p := &Prometheus{s}
	file := filepath.Join(s.dir, "prometheus.yml")
	s.prepare = func() error { return os.WriteFile(file, []byte(cfg.Config), 0o644) }
	s.probe = func(timeout time.Duration) error {
		return ask(timeout, http.MethodGet, p.URL()+"/-/ready", nil, "", nil)
	}
	s.proc.Spec.Args = []string{
		"--config.file=" + file,
		"--storage.tsdb.path=" + s.dataDir,
		"--web.listen-address=" + s.addr,
	}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// URL returns the server's address.
func (p *Prometheus) URL() string { return "http://" + p.addr }

// Ask calls the server's API at /api/v1, and parses the answer's data into result. It blocks until the
// server answers, for wait.Patience at most.
func (p *Prometheus) Ask(call string, parameters url.Values, result any) error {
	var answer struct{ Data json.RawMessage }
	if err := ask(wait.Patience, http.MethodGet, p.URL()+"/api/v1/"+call+"?"+parameters.Encode(), nil, "", &answer); err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Data, result); err != nil {
		return fmt.Errorf("servertest: %s: %w", call, err)
	}
	return nil
}

// Promtool returns the path of promtool, which comes with Prometheus and checks its files.
func Promtool() (string, error) { return program("promtool", "prometheus") }
