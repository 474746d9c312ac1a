package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// found is the election at a path.
type found struct {
	path     string
	strategy known
	dir      string // directory of the entries
	record   layout.Record
	// looked are the entries that were read, as they were: as long as they do not change, the result
	// holds.
	looked []backend.Entry
}

// check validates the path of an election.
func check(path string) error {
	if path == "/" { // may be Kafka's
		return nil
	}
	if err := backend.CheckKey(path); err != nil {
		return fmt.Errorf("%w: %w", err, elector.ErrConfig)
	}
	return nil
}

// begin checks the path, and returns a session that shows at least what exists at the time at.
func (i *Inspector) begin(ctx context.Context, path string) (s *backend.Session, at time.Time, err error) {
	if err = check(path); err == nil {
		s, err = i.live(ctx)
	}
	if err == nil {
		at, err = time.Now(), s.CatchUp(ctx, i.somewhere(path))
	}
	return s, at, err
}

// somewhere returns a key that may be read by everybody who looks at the path.
func (i *Inspector) somewhere(path string) string {
	if path != "/" {
		return path
	}
	for _, k := range i.landmarked() {
		return k.use.(strategy.CustomLayout).Landmark(path)
	}
	return "/x"
}

// landmarked returns the strategies that have a layout of their own, without a record, and a landmark instead.
func (i *Inspector) landmarked() (all []known) {
	for _, k := range i.strategies {
		if _, is := k.use.(strategy.CustomLayout); is {
			all = append(all, k)
		}
	}
	return all
}

// find finds the election at a path. ErrNoElection means that there is none, and why; looked is set then,
// too.
func (i *Inspector) find(ctx context.Context, s *backend.Session, path string) (found, error) {
	e, err := i.findBy(ctx, s, path, func(e *found, key string) (bool, error) {
		mark, err := e.look(ctx, s, key)
		return mark.Exists(), err
	})
	if err == nil && e.dir == path {
		e.looked = e.looked[:len(e.looked)-1] // the landmark is written with each change of leader, as Kafka's is
	}
	return e, err
}

// findBy finds the election at a path. marked reports whether a landmark exists.
func (i *Inspector) findBy(ctx context.Context, s *backend.Session, path string, marked func(e *found, key string) (bool, error)) (found, error) {
	e := found{path: path}
	if path != "/" {
		entry, err := e.look(ctx, s, path)
		if err != nil {
			return e, err
		}
		if len(entry.Value) > 0 || entry.Session != "" {
			return i.recorded(e, entry)
		}
	}
	for _, k := range i.landmarked() {
		is, err := marked(&e, k.use.(strategy.CustomLayout).Landmark(path))
		if err != nil {
			return e, err
		}
		if is {
			e.strategy, e.dir = k, path
			return e, nil
		}
	}
	return e, fmt.Errorf("%w: there is no record at %s: compare the service, the chroot or prefix, and the path", elector.ErrNoElection, path)
}

// recorded finds the election by its record.
func (i *Inspector) recorded(e found, entry backend.Entry) (found, error) {
	if entry.Session != "" {
		return e, fmt.Errorf("%w: the entry at %s is somebody's ephemeral entry", elector.ErrNoElection, e.path)
	}
	record, err := layout.DecodeRecord(entry.Value)
	if err != nil {
		return e, fmt.Errorf("%w: the entry at %s is %w", elector.ErrNoElection, e.path, err)
	}
	e.record, e.strategy, e.dir = record, i.named(record.Strategy), e.path+"/"+record.Dir
	return e, nil
}

// look reads an entry and notes it.
func (e *found) look(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	entry, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		entry, err = backend.Entry{Key: key}, nil
	}
	e.looked = append(e.looked, entry)
	return entry, err
}

// view returns what is known of the election before anybody has looked who stands.
func (e found) view(at time.Time) View {
	v := View{Election: e.path, At: at}
	if e.strategy.use != nil {
		v.Strategy, v.Unknown, v.Hidden = e.strategy.use.Name(), e.strategy.unknown, !e.strategy.lists
		v.Designated = (*Designation)(e.record.Designated)
	}
	return v
}

// election returns the election as its strategy knows it.
func (e found) election() *election.Election { return election.New(e.path, e.strategy.use) }

// leader reads who leads; the zero Leader if nobody does.
func (e found) leader(ctx context.Context, s *backend.Session) (elector.Leader, error) {
	leader, err := e.election().Leader(ctx, s, e.dir)
	if errors.Is(err, elector.ErrNoLeader) {
		err = nil
	}
	return leader, err
}
