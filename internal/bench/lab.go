package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"
)

const (
	// maxTTL is the longest session timeout that the flags accept.
	maxTTL = 10 * time.Minute
	// patience limits each single step: a longer one is stuck.
	patience = 60 * time.Second
)

// A lab is the state that the parts share.
type lab struct {
	cfg     config
	log     io.Writer // progress
	kind    kind
	service service // nil for the parts that need none
	facts   facts
	sums    []line // results of all parts, for the summary
	steps   []line // results of the part "writes"
}

func newLab(cfg config, k kind, log io.Writer) *lab {
	s := k.make(cfg)
	return &lab{cfg: cfg, log: log, kind: k, service: s, facts: s.facts()}
}

// onService starts the server of a service.
func onService(ctx context.Context, cfg config, k kind, log io.Writer) (*lab, error) {
	l := newLab(cfg, k, log)
	l.say("starting the server")
	if err := l.service.start(); err != nil {
		return nil, err
	}
	c, err := l.service.connect(ctx)
	if err == nil {
		err = c.create(ctx, rawEpoch)
		c.close()
	}
	if err != nil {
		return nil, errors.Join(err, l.service.Close())
	}
	return l, nil
}

func (l *lab) say(format string, args ...any) {
	where := "bench: "
	if l.service != nil {
		where += l.facts.title + ": "
	}
	fmt.Fprintf(l.log, where+format+"\n", args...)
}

// opener returns a function that opens backends at the server.
func (l *lab) opener() func() (seat, error) {
	return func() (seat, error) { return l.service.open(l.cfg.ttl) }
}

// few returns the numbers of candidates on the service that are not too many for a herd.
func (l *lab) few() []int {
	return slices.DeleteFunc(slices.Clone(l.cfg.numbers(l.facts)), func(n int) bool { return n > herdN })
}

// describe describes where the numbers come from.
func describe(cfg config) string {
	about := fmt.Sprintf("%s, %s/%s, %d CPUs (%s). Clients and server on this one machine, over loopback.", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel())
	if cfg.servers > 1 {
		about += fmt.Sprintf("\n\nEach service has %d servers.", cfg.servers)
	}
	if cfg.dir != "" {
		about += fmt.Sprintf("\n\nThe servers' files are in %s.", cfg.dir)
	}
	if cfg.quick {
		about += "\n\n**A smoke run (-quick): these numbers mean nothing.**"
	}
	return about
}

// cpuModel returns the processor's name if the system reports it.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if name := regexp.MustCompile(`(?m)^model name\s*: (.+)$`).FindSubmatch(text); name != nil {
		return string(name[1])
	}
	return "model unknown"
}

// settleTime is how long connecting may leave traces, such as the timers and buffers of handshakes. By then
// all have sent a heartbeat, whose traces stay.
func (l *lab) settleTime() time.Duration {
	if l.cfg.quick {
		return 100 * time.Millisecond
	}
	return l.cfg.ttl/3 + 2*time.Second
}
