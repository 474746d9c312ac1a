package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/fair"
)

func tryMembers(f *flag.FlagSet) part {
	takes := f.Duration("work", 4*time.Second, "a worker needs `DURATION` for a task")
	return func(ctx context.Context, p *participant) error {
		for _, task := range p.args[1:] {
			if err := backend.CheckKey("/" + task); err != nil || strings.Contains(task, "/") {
				return usagef("TASK %q: give a name without a /", task)
			}
		}
		if len(p.args) > 1 {
			return beController(ctx, p, p.args[0], p.args[1:])
		}
		p.say("offers itself as a worker")
		return Work(ctx, p.Session, p.args[0], p.name, func(ctx context.Context, j Job) error {
			p.say("begins %s, token %d", j.Task, j.Token)
			err := doInParts(ctx, j, *takes)
			if err != nil {
				p.say("stops in the midst of %s: %v", j.Task, err)
			} else {
				p.say("has done %s", j.Task)
			}
			return err
		})
	}
}

// doInParts reports after each quarter.
func doInParts(ctx context.Context, j Job, takes time.Duration) error {
	for done := 25; done <= 100; done += 25 {
		if err := sleep(ctx, takes/4); err != nil {
			return err
		}
		if err := j.Report(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// beController stands for the controller's seat, and is one while it leads.
func beController(ctx context.Context, p *participant, dir string, tasks []string) (err error) {
	e, err := elector.New(elector.Config{Backend: p.backend, Strategy: fair.New(), Election: dir + "/controller", ID: p.name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	p.say("stands for the controller's seat")
	return elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
		p.say("is the controller, token %d", term.Token())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go show(ctx, p, dir)
		guard := term.Guard()
		err := Control(ctx, guard.Session, guard.Conditions, dir, tasks, p.say)
		if err == nil {
			p.say("all is done: %s", strings.Join(tasks, ", "))
		} else {
			p.say("is not the controller any more: %v", err)
		}
		return err
	})
}

// show tells which workers live and how far each is, when that has changed.
func show(ctx context.Context, p *participant, dir string) {
	for last := ""; sleep(ctx, 250*time.Millisecond) == nil; {
		_, all, err := Members(ctx, p.Session, dir)
		if err != nil {
			return
		}
		now := "sees:"
		for _, w := range all {
			if now += " " + w.Name; w.free {
				now += " (free)"
			} else {
				now += fmt.Sprintf(" (%s, %d %%)", w.Task, w.Done)
			}
		}
		if now != last {
			p.say("%s", now)
		}
		last = now
	}
}
