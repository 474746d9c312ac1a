package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/servertest"
)

const (
	// tick is the server's: it expires sessions in steps of this.
	tick = 200 * time.Millisecond
	// maxTTL is the longest session timeout that the server grants.
	maxTTL = 10 * time.Minute
	// patience bounds each single step: what takes longer is stuck.
	patience = 60 * time.Second
)

// lab is what the parts share.
type lab struct {
	cfg   config
	log   io.Writer // progress
	zk    *servertest.ZooKeeper
	pings pings
}

// start starts the server, once.
func (l *lab) start() error {
	if l.zk != nil {
		return nil
	}
	l.say("starting a ZooKeeper server")
	zk, err := servertest.StartZooKeeper(serverConfig(l.cfg))
	if err != nil {
		return err
	}
	l.zk = zk
	return nil
}

func serverConfig(cfg config) servertest.ZooKeeperConfig {
	return servertest.ZooKeeperConfig{
		TickTime: tick, MaxSessionTimeout: maxTTL, HeapMB: cfg.heapMB, NoSync: !cfg.fsync,
	}
}

func (l *lab) close() error {
	if l.zk == nil {
		return nil
	}
	return l.zk.Close()
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.log, "bench: "+format+"\n", args...)
}

// A meter reads the server's packet counters.
type meter struct {
	l        *lab
	last     int
	overhead int // of the asking itself
}

// packets returns how many packets the server has received and sent since the last
// call, less the pings, their answers, and what the asking costs: the server counts
// that, too, so it is asked twice in a row each time.
func (m *meter) packets() (int, error) {
	first, err := m.read()
	if err != nil {
		return 0, err
	}
	second, err := m.read()
	if err != nil {
		return 0, err
	}
	n := first - m.last - m.overhead
	m.last, m.overhead = second, second-first
	return n, nil
}

func (m *meter) read() (int, error) {
	counters, err := m.l.zk.Metrics()
	if err != nil {
		return 0, err
	}
	return int(counters["packets_received"]+counters["packets_sent"]) - 2*int(m.l.pings.n.Load()), nil
}

// machine is where the numbers come from.
type machine struct {
	Go      string `json:"go"`
	OS      string `json:"os"`
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Samples int    `json:"samples"`
	Idle    string `json:"idle"`
	TTL     string `json:"ttl"`
	Fsync   bool   `json:"fsync"`
	Quick   bool   `json:"quick"`
}

func describe(cfg config) machine {
	return machine{
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuModel(), CPUs: runtime.NumCPU(),
		Samples: cfg.samples, Idle: cfg.idle.String(), TTL: cfg.ttl.String(), Fsync: cfg.fsync, Quick: cfg.quick,
	}
}

func (m machine) markdown(w io.Writer) {
	fmt.Fprintf(w, "# elector: measured\n\n")
	fmt.Fprintf(w, "%s, %s, %d CPUs (%s). Client and server on this one machine, over loopback.\n\n", m.Go, m.OS, m.CPUs, m.CPU)
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

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
