package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend/memory"
)

// demo runs a cluster of three brokers, on a service in this process. After each scene it prints the states
// of the partitions. It ends by itself after half a minute.
func demo(ctx context.Context, say func(string, ...any)) {
	const ttl = 600 * time.Millisecond
	service := memory.New(memory.Options{DefaultTTL: ttl})
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	brokers := make(map[int]*memory.Client)
	start := func(id int) {
		brokers[id] = service.Client(fmt.Sprint("broker ", id))
		b := newBroker(id, brokers[id], false, say)
		group.Go(func() { b.run(ctx) })
	}
	hears := func() {}
	for _, scene := range []struct {
		says    string
		happens func()
		pause   time.Duration
	}{
		{"broker 1 starts", func() { start(1) }, 2 * ttl},
		{"broker 2 starts", func() { start(2) }, 2 * ttl},
		{"broker 3 starts", func() { start(3) }, 2 * ttl},
		{"broker 2 DIES", func() { brokers[2].Kill() }, 2 * ttl},
		{"broker 2 starts again", func() { start(2) }, 2 * ttl},
		{"broker 2 DIES", func() { brokers[2].Kill() }, 0},
		{"broker 2 starts again, before the service has noticed", func() { start(2) }, 2 * ttl},
		{"broker 1, the controller, hears of nothing for a while", func() { hears = brokers[1].HoldWakeups() }, 0},
		{"an operator deletes the registration of broker 3", func() { service.Delete(registrationKey(3)) }, 2 * ttl},
		{"broker 1 hears of it", func() { hears() }, 2 * ttl},
		{"what broker 1 writes next is on its way for long", func() { brokers[1].DelayRequest(memory.Key(partitionsKey), 2*ttl) }, 0},
		{"broker 3 DIES", func() { brokers[3].Kill() }, 2 * ttl},
		{"what broker 2 writes next is on its way for longer", func() { brokers[2].DelayRequest(memory.Key(partitionsKey), 3*ttl) }, 0},
		{"an operator deletes the controller's entry, so that broker 2 follows", func() { service.Delete(root + "/controller") }, 2 * ttl},
		{"broker 3 starts again", func() { start(3) }, 2 * ttl},
		{"broker 2, the controller, IS CUT OFF", func() { brokers[2].Suspend() }, 2 * ttl},
		{"broker 2 is back", func() { brokers[2].Resume() }, 2 * ttl},
		{"broker 1 DIES", func() { brokers[1].Kill() }, 2 * ttl},
		{"broker 2 DIES, who alone has all of partition 0", func() { brokers[2].Kill() }, 2 * ttl},
		{"broker 1 starts again", func() { start(1) }, 2 * ttl},
		{"broker 2 starts again", func() { start(2) }, 2 * ttl},
		{"the service STOPS", service.Stop, 2 * ttl},
		{"the service starts again", service.Start, 2 * ttl},
		{"somebody overwrites the states", func() { _ = service.Put(partitionsKey, []byte("?")) }, 0},
		{"broker 1 DIES", func() { brokers[1].Kill() }, 2 * ttl},
	} {
		say("=== %s", scene.says)
		scene.happens()
		select {
		case <-time.After(scene.pause):
		case <-ctx.Done():
			return
		}
		states, _ := decode(service.Entry(partitionsKey))
		for n, p := range states {
			say("--- partition %d: %v", n, p)
		}
	}
}
