package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// The controller of membership and progress (members.go). There is to be one at a time: it leads an
// election, and guard are the conditions of its term (elector.Term.Guard). One that was deposed
// and does not know it yet writes nothing.
//
// Trap: reading the workers that live before the tasks that were given. A task given in between, by the controller
// before, is of a worker that the listing does not have, and is taken from it though it lives. So
// the tasks are read first. A worker that has finished meanwhile is not in the listing
// either, and its task as it was read looks like a dead worker's: so it is taken back only if unchanged.

// Control gives tasks to workers that are free, and takes them back from those that are gone, until all are
// done. It never gives a task to two that live, nor two tasks to one. A worker that dies at the instant
// does not get one: the commit demands its offer. A task that a stranger has put an entry below may not be taken
// back, as an entry with others below it cannot be deleted: that is tried again and again, and the others go on.
func Control(ctx context.Context, s *backend.Session, guard []backend.Condition, dir string, tasks []string, say func(string, ...any)) error {
	bad := func(task string) bool { return backend.CheckKey("/"+task) != nil || strings.Contains(task, "/") }
	if i := slices.IndexFunc(tasks, bad); i >= 0 { // one name may not be below another
		return fmt.Errorf("task %q: give a name without a /: %w", tasks[i], backend.ErrBadKey)
	}
	for {
		left, line, err := settle(ctx, s, guard, dir, tasks, say)
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil:
			_, err = s.AwaitList(ctx, line)
		case refused(err) || again(ctx, err): // what was read is outdated, or the term is over
			err = sleep(ctx, 50*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
}

// settle gives and takes back what there is to, by what it reads, and returns how many tasks are not done.
func settle(ctx context.Context, s *backend.Session, guard []backend.Condition, dir string, tasks []string, say func(string, ...any)) (left int, line backend.Listing, err error) {
	given := make([]backend.Entry, len(tasks))
	for i, task := range tasks {
		if given[i], err = read(ctx, s, dir+"/tasks/"+task); err != nil {
			return 0, line, err
		}
	}
	line, workers, err := Members(ctx, s, dir)
	if err != nil {
		return 0, line, err
	}
	attempt := func(unchanged backend.Entry, ops ...backend.Op) []backend.Entry { // nil if it fails: then the other tasks go on
		made, failed := s.Commit(ctx, append(slices.Clone(guard), backend.IfUnchanged(unchanged)), ops...)
		if failed != nil && (err == nil || refused(err)) {
			err = failed
		}
		return made
	}
	for i, task := range given {
		a, _ := decode[assignment](task)
		if a.Done {
			continue
		}
		left++
		if slices.ContainsFunc(workers, func(w Member) bool { return w.Key == a.Worker && w.Rev == a.Rev }) {
			continue
		}
		if task.Exists() {
			if attempt(task, backend.Delete(task)) == nil {
				continue
			}
			say("takes %s back: its worker is gone", tasks[i])
		}
		free := slices.IndexFunc(workers, func(w Member) bool { return w.free })
		if free < 0 {
			continue
		}
		w := &workers[free]
		w.free, w.Task = false, tasks[i]
		a = assignment{Worker: w.Key, Rev: w.Rev}
		if made := attempt(w.Entry, backend.CompareAndSet(task.Key, encode(a), 0), backend.Update(w.Entry, encode(w.offer))); made != nil {
			say("gives %s to %s, token %d", tasks[i], w.Name, made[0].Rev)
		}
	}
	return left, line, err
}

// Members are all workers that live, with their progress; the one that waits longest comes first.
func Members(ctx context.Context, s *backend.Session, dir string) (line backend.Listing, all []Member, err error) {
	if line, err = s.List(ctx, dir+"/workers"); err != nil {
		return line, nil, err
	}
	for _, key := range line.Keys {
		e, err := read(ctx, s, key)
		if err != nil {
			return line, nil, err
		}
		if o, readable := decode[offer](e); e.Session != "" { // otherwise it has gone since, or is a stranger's
			all = append(all, Member{e, o, readable && o.Task == ""})
		}
	}
	return line, all, nil
}
