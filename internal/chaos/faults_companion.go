package main

import (
	"errors"
	"os"
	"time"
)

// A keeper is the companion or agent that ends the sessions of one candidate, during a fault.
type keeper struct {
	process *os.Process // nil if there is none at the moment
	agent   *agent      // nil if it is the candidate's companion
	killed  bool
}

// keeper takes the keeper of a candidate until release.
func (s *slot) keeper() *keeper {
	if s.agent() == "" {
		s.child.mu.Lock()
		defer s.child.mu.Unlock()
		return &keeper{process: s.child.companion}
	}
	a := s.campaign.agent
	a.busy.Lock()
	return &keeper{process: a.child.cmd.Process, agent: a}
}

func (k *keeper) do(what func(*os.Process) error) error {
	if k.process == nil {
		return nil
	}
	return unlessDone(what(k.process))
}

func (k *keeper) pause() error  { return k.do(pauseProcess) }
func (k *keeper) resume() error { return k.do(resumeProcess) }

// kill does not wait for the end.
func (k *keeper) kill() error {
	k.killed = true
	if k.agent != nil {
		return k.agent.child.hit()
	}
	return k.do((*os.Process).Kill)
}

// release starts a killed agent again. A candidate starts its companion itself.
func (k *keeper) release() error {
	if k.agent == nil {
		return nil
	}
	defer k.agent.busy.Unlock()
	if k.killed {
		return errors.Join(k.agent.child.kill(), k.agent.start())
	}
	return nil
}

// beginCompanionKilled kills the keeper, alone or some milliseconds before or after its candidate.
func beginCompanionKilled(x *slot, s step) (undo func() error, err error) {
	k, way := x.keeper(), s.Kind.way(s)
	pause := time.Duration(s.random().Int64N(int64(20 * time.Millisecond)))
	switch way {
	case "alone":
		err = k.kill()
	case "before its process":
		err = k.kill()
		time.Sleep(pause)
		err = errors.Join(err, x.child.kill())
	case "with its process":
		err = errors.Join(k.kill(), x.child.kill())
	case "after its process":
		err = x.child.hit()
		time.Sleep(pause)
		err = errors.Join(err, k.kill(), x.child.kill())
	}
	return func() error {
		if err := k.release(); err != nil || way == "alone" {
			return err
		}
		return x.start()
	}, err
}

// beginCompanionFrozen stops the keeper, alone, together with its candidate, or while the candidate is
// killed and its next process starts.
func beginCompanionFrozen(x *slot, s step) (undo func() error, err error) {
	k, way, random := x.keeper(), s.Kind.way(s), s.random()
	err = k.pause()
	switch way {
	case "with its process":
		err = errors.Join(err, x.child.pause())
	case "and its process killed":
		err = errors.Join(err, x.child.kill())
	}
	return func() (err error) {
		switch {
		case way == "and its process killed":
			err = x.start()
			time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
			err = errors.Join(err, k.resume())
		case random.IntN(2) > 0:
			err = errors.Join(x.child.resume(), k.resume())
		default:
			err = errors.Join(k.resume(), x.child.resume())
		}
		return errors.Join(err, k.release())
	}, err
}
