package main

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

// Membership and progress: workers that offer themselves, report their progress, and do what a controller
// gives them (controller.go).
//
//	DIR/workers/…   ephemeral, in order: an offer of a worker. Its value has the task and the
//	                progress, and goes with the worker
//	DIR/tasks/TASK  persistent: created when the task is given, deleted when it is taken back, and
//	                marked when it is done. Its creation revision is the assignment's fencing token
//
// Each offer is good for one task. A worker that is done marks the task and replaces its offer by a new one,
// in one commit. So workers that come, go and become free are changes of one directory, and the controller
// only has to wait for its listing.
//
// Source: the master and its workers in Junqueira and Reed, "ZooKeeper", chapter 2, which assign tasks so;
// Curator's GroupMember for the membership alone.
//
// Trap: a worker that was paused is dead for the controller, and does not know it. It continues its old task,
// and another worker has it, too. Its commits are refused: they require the task's entry of its own
// assignment. For its work elsewhere it must show its token, and the target must check it (docs/fencing.md).
// So a task may be begun several times. It is marked once.

// An offer is the value of a worker's entry.
type offer struct {
	Name string
	Task string // written by the controller; "" is free
	Done int    // progress, written by the worker
}

// A Member is a live worker.
type Member struct {
	backend.Entry
	offer
	free bool
}

// An assignment is the value of a task's entry.
type assignment struct {
	Worker string // the offer's key and creation revision: one incarnation
	Rev    uint64
	Done   bool
}

// A Job is a task in the hands of one worker.
type Job struct {
	Task  string
	Token uint64 // higher than the tokens of the task's earlier assignments
	// Report stores the progress. It fails if the task is not this worker's any more; then do's ctx ends.
	Report func(ctx context.Context, done int) error
}

// A failure is do's own error. It may look like a refusal of the service, but the task is still this worker's.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Work does tasks as they are given, until ctx ends, the session is lost, or do fails while the task is its
// own. do's ctx ends when the worker's offer is gone: then the task goes to another.
func Work(ctx context.Context, s *backend.Session, dir, name string, do func(context.Context, Job) error) error {
	for {
		me, err := one(add(ctx, s, nil, backend.Enqueue(dir+"/workers", encode(offer{Name: name}))))
		for err == nil {
			me, err = workOnce(ctx, s, dir, me, do)
		}
		if me.Exists() {
			err = errors.Join(err, withdraw(ctx, s, me))
		}
		// Somebody has deleted the offer or the task, or the outcome of the mark is unknown: continue.
		goesOn := refused(err) || errors.Is(err, errTaken) || again(ctx, err)
		if errors.As(err, new(failure)) || ctx.Err() != nil || errors.Is(err, backend.ErrSessionLost) || !goesOn {
			return err
		}
	}
}

// workOnce waits for a task, does it, and returns the next offer. With an error it returns the old one.
func workOnce(ctx context.Context, s *backend.Session, dir string, me backend.Entry, do func(context.Context, Job) error) (backend.Entry, error) {
	var o offer
	for now := []backend.Entry{me}; o.Task == ""; o, _ = decode[offer](now[0]) { // a stranger's scribble is not a task
		var err error
		if now, err = s.Await(ctx, now[0]); err != nil {
			return me, err
		}
		if now[0].Rev != me.Rev {
			return me, backend.ErrNoEntry
		}
	}
	task, err := s.Get(ctx, dir+"/tasks/"+o.Task)
	a, _ := decode[assignment](task)
	switch {
	case err != nil && !errors.Is(err, backend.ErrBadKey):
		return me, err
	case a.Worker != me.Key || a.Rev != me.Rev || a.Done:
		return me, backend.ErrNoEntry // not an assignment of this offer
	}
	held := hold(ctx, s, me)
	defer held.end(nil)
	report := func(ctx context.Context, done int) error {
		_, err := commit(ctx, s, []backend.Condition{backend.IfExists(task)}, backend.Update(me, encode(offer{o.Name, o.Task, done})))
		if refused(err) {
			held.end(err)
		}
		return err
	}
	if err := do(held, Job{Task: o.Task, Token: task.Rev, Report: report}); err != nil {
		if held.Err() != nil {
			return me, context.Cause(held)
		}
		return me, failure{err}
	}
	a.Done = true
	made, err := s.Commit(ctx, nil, backend.Update(task, encode(a)), backend.Delete(me),
		backend.Enqueue(dir+"/workers", encode(offer{Name: o.Name})))
	if err != nil {
		return me, err
	}
	return made[2], nil
}
