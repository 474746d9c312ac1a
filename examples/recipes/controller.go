package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// The controller of membership and progress (members.go). There must be only one at a time: it leads an
// election, and guard has the conditions of its term (elector.Term.Guard). A controller that was deposed and
// does not know it yet writes nothing.
//
// Trap: reading the live workers before the assigned tasks. If the previous controller assigns a task in
// between, its worker is not in the listing, and the task is taken from it though it lives. So the tasks are
// read first. A worker that has finished meanwhile is not in the listing either, and its task as read looks
// like a dead worker's: so a task is taken back only if unchanged.

// Control gives tasks to free workers, and takes them back from those that are gone, until all are done. It
// never gives a task to two live workers, nor two tasks to one. A worker that dies at that instant gets none:
// the commit requires its offer. A task with a stranger's entry below it cannot be taken back, as an entry
// with children cannot be deleted: Control tries again and again, and continues with the others.
func Control(ctx context.Context, s *backend.Session, guard []backend.Condition, dir string, tasks []string, say func(string, ...any)) error {
	bad := func(task string) bool { return backend.CheckKey("/"+task) != nil || strings.Contains(task, "/") }
	if i := slices.IndexFunc(tasks, bad); i >= 0 { // no name may be below another
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

// settle reads the state, gives tasks and takes them back, and returns how many are not done.
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
	attempt := func(unchanged backend.Entry, ops ...backend.Op) []backend.Entry { // nil if it fails: the other tasks continue
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

// Members returns all live workers, with their progress; the one that has waited longest comes first.
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
