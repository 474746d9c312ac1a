package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	// maxTTL is the longest session timeout that can be asked for.
	maxTTL = 10 * time.Minute
	// patience bounds each single step: what takes longer is stuck.
	patience = 60 * time.Second
)

// lab is what the parts share.
type lab struct {
	cfg     config
	log     io.Writer // progress
	service service   // nil for the parts that need none
	facts   facts
}

// onService starts a service's server.
func onService(ctx context.Context, cfg config, log io.Writer, s service) (*lab, error) {
	l := &lab{cfg: cfg, log: log, service: s, facts: s.facts()}
	l.say("starting the server")
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := found(ctx, s, cfg.ttl); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return l, nil
}

// found makes what bare clients' transactions write.
func found(ctx context.Context, s service, ttl time.Duration) error {
	c, err := s.connect(ctx, s.Addr(), ttl)
	if err != nil {
		return err
	}
	defer c.close()
	return c.found(ctx)
}

func (l *lab) say(format string, args ...any) {
	where := "bench: "
	if l.service != nil {
		where += l.facts.title + ": "
	}
	fmt.Fprintf(l.log, where+format+"\n", args...)
}

// opener opens backends at the server.
func (l *lab) opener() func() (seat, error) {
	return func() (seat, error) { return l.service.open(l.service.Addr(), l.cfg.ttl) }
}

// machine is where the numbers come from.
type machine struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Servers int    `json:"servers"`
	Samples int    `json:"samples"`
	Idle    string `json:"idle"`
	TTL     string `json:"ttl"`
	Fsync   bool   `json:"fsync"`
	Dir     string `json:"dir"`
	Quick   bool   `json:"quick"`
}

func describe(cfg config) machine {
	return machine{
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Servers: cfg.servers, Samples: cfg.samples, Idle: cfg.idle.String(), TTL: cfg.ttl.String(), Fsync: cfg.fsync, Dir: cfg.dir, Quick: cfg.quick,
	}
}

func (m machine) markdown(w io.Writer) {
	fmt.Fprintf(w, "# elector: measured\n\n")
	fmt.Fprintf(w, "%s, %s, %d CPUs (%s). Clients and server on this one machine, over loopback.\n\n", m.Go, m.OS, m.CPUs, m.CPU)
	if m.Servers > 1 {
		fmt.Fprintf(w, "Each service has %d servers.\n\n", m.Servers)
	}
	if m.Dir != "" {
		fmt.Fprintf(w, "The servers' files are in %s.\n\n", m.Dir)
	}
	if m.Quick {
		fmt.Fprintf(w, "**A smoke run (-quick): these numbers mean nothing.**\n\n")
	}
}

// cpuModel is the processor's name where the system tells it.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "model unknown"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "model unknown"
}

// settleTime is how long connecting may leave traces, such as the timers and buffers
// of handshakes, and until all have sent a heartbeat, whose traces stay.
func (l *lab) settleTime() time.Duration {
	if l.cfg.quick {
		return 100 * time.Millisecond
	}
	return l.cfg.ttl/3 + 2*time.Second
}
