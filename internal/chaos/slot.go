package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/elector-go/elector/internal/proxytest"
)

// A slot is one candidate through all its processes, with its links to the service.
type slot struct {
	campaign *campaign
	id       string
	proxies  []*proxytest.Proxy // one for each server that candidates connect to
	child    *child             // its latest process
	started  int                // number of processes
	busy     bool               // a fault uses it; guarded by the campaign
}

func newSlot(c *campaign, id string) (*slot, error) {
	s := &slot{campaign: c, id: id}
	for _, x := range c.service.Access {
		p, err := proxytest.New(x.Addr())
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.proxies = append(s.proxies, p)
	}
	return s, nil
}

// start starts the candidate's next process.
func (s *slot) start() error {
	var addrs []string
	for _, p := range s.proxies {
		addrs = append(addrs, p.Addr())
	}
	s.started++
	name := s.id + "." + strconv.Itoa(s.started)
	return s.campaign.launch(&s.child, candidateOptions{
		ID: s.id, Name: name, URL: s.campaign.service.url(addrs...), Strategy: s.campaign.strategy,
		History: filepath.Join(s.campaign.dir, "candidate-"+name+".jsonl"),
		Seed:    s.campaign.seed<<16 + uint64(len(s.campaign.children)),
		Quiet:   s.campaign.service.network != nil,
		Broken:  s.campaign.broken,
		Elector: s.campaign.elector,
		Wills:   s.campaign.wills(),
		Agent:   s.agent(),
	})
}

// each calls do with the proxy of each link.
func (s *slot) each(do func(*proxytest.Proxy)) {
	for _, p := range s.proxies {
		do(p)
	}
}

func (s *slot) close() error {
	var errs []error
	for _, p := range s.proxies {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// take picks the candidate for a fault, and keeps other faults from it until release. If the step wants the
// leader but no leader is free, take picks any candidate.
func (c *campaign) take(s step) (taken *slot, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var free []*slot
	for _, x := range c.slots {
		if !x.busy {
			free = append(free, x)
		}
	}
	taken = free[s.Way%len(free)] // there are more candidates than parallel faults
	if s.Leader {
		for _, x := range free {
			if x.child.token() > taken.child.token() {
				taken = x
			}
		}
	}
	taken.busy = true
	return taken, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		taken.busy = false
	}
}

// describe names a candidate, whether it leads, and what ends its sessions if it dies.
func (s *slot) describe() string {
	text := "candidate " + s.child.name
	switch {
	case s.agent() != "":
		text += ", with the agent"
	case s.campaign.agent != nil:
		text += ", with a companion"
	}
	if token := s.child.token(); token != 0 {
		text += fmt.Sprintf(", which leads with token %d", token)
	}
	return text
}
