package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// demo is a cluster of three brokers in this process, on a service in this process.
// It ends by itself after a few seconds.
func demo(ctx context.Context, say sayer) error {
	const ttl = time.Second
	say("three brokers, one topic of 3 partitions with 2 replicas each; session timeout %v", ttl)
	service := memory.New(memory.Options{DefaultTTL: ttl})
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	audience, err := service.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer audience.Close(context.WithoutCancel(ctx))

	processes := make(map[int]*memory.Client)
	for id := 1; id <= 3; id++ {
		process := service.Client(fmt.Sprint("broker ", id))
		processes[id] = process
		group.Go(func() {
			if err := newBroker(id, process, "/", say).run(ctx); err != nil {
				say("broker %d has failed: %v", id, err)
			}
		})
		if id == 1 { // it is to be the controller
			if _, err := audience.Await(ctx, backend.Entry{Key: layout("/").key("controller")}); err != nil {
				return err
			}
		}
	}
	if err := registered(ctx, audience, len(processes)); err != nil {
		return err
	}
	if err := createTopic(ctx, audience, "/", "orders", topic{Partitions: 3, Replicas: 2}); err != nil {
		return err
	}
	for _, scene := range []struct {
		says  string
		does  func()
		until func(p []partition) bool
	}{
		{"topic orders was asked for", func() {},
			func(p []partition) bool { return p[0].Leader == 1 && p[1].Leader == 2 && p[2].Leader == 3 }},
		{"broker 2, the leader of orders-1, DIES: its link goes dead without a word", processes[2].Suspend,
			func(p []partition) bool { return p[1].Leader == 3 }},
		{"broker 2 COMES BACK", processes[2].Resume,
			func(p []partition) bool { return len(p[0].ISR) == 2 && len(p[1].ISR) == 2 }},
		{"broker 1, the controller, DIES", processes[1].Suspend,
			func(p []partition) bool { return p[0].Leader == 2 && p[0].ControllerEpoch > 1 }},
		{"broker 3 DIES: nobody is left who has all of orders-2", processes[3].Suspend,
			func(p []partition) bool { return p[2].Leader == offline }},
	} {
		say("=== %s", scene.says)
		scene.does()
		if err := await(ctx, audience, scene.until); err != nil {
			return err
		}
		// The brokers are told at the same time as the audience: let them speak.
		select {
		case <-time.After(ttl / 4):
		case <-ctx.Done():
		}
	}
	say("=== the end")
	return nil
}

// registered waits until there are so many brokers.
func registered(ctx context.Context, s *backend.Session, brokers int) error {
	listing, err := s.List(ctx, layout("/").brokers())
	for err == nil && len(listing.Keys) < brokers {
		listing, err = s.AwaitList(ctx, listing)
	}
	return err
}

// await waits until the partitions of the demo's topic are as wanted.
func await(ctx context.Context, s *backend.Session, wanted func([]partition) bool) error {
	var known []backend.Entry
	for n := range 3 {
		known = append(known, backend.Unknown(layout("/").partition("orders", n)))
	}
	for {
		now, err := s.Await(ctx, known...)
		if err != nil {
			return err
		}
		all := make([]partition, len(now))
		for i, e := range now {
			all[i], _ = decodePartition(e)
		}
		if wanted(all) {
			return nil
		}
		known = now
	}
}
