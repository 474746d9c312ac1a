package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// ListOptions configure List. The zero value is usable.
type ListOptions struct {
	// Most is how many keys List looks at. Zero means 10,000.
	Most int

	_ struct{}
}

// A Listing says which elections exist under a path.
type Listing struct {
	Under string `json:"under"`
	// Elections are sorted by path. Each has its leader and Count, but no Candidates.
	Elections []View `json:"elections"`
	// Keys is how many keys were looked at.
	Keys int `json:"keys"`
	// Missed says where there may be more elections; nil if nowhere.
	Missed []Missed `json:"missed,omitempty"`
}

// Missed says that not everything below a key was looked at.
type Missed struct {
	Key string `json:"key"`
	Why string `json:"why"`
}

const (
	defaultMost = 10_000
	// page is how many keys directly under one key are looked at.
	page = 1000
	// abreast is how many keys are looked at concurrently.
	abreast = 8
)

// List finds the elections at a path and below it: "/" for all. It looks at each key there, with two or
// three requests, but not into the directories of elections, and then at each election with a few
// requests. It stops at ListOptions.Most keys, and looks at no more than a thousand keys directly under
// one key; on ZooKeeper, it looks at none of them if there are more. Listing.Missed says so, and also
// where the service denies access.
//
// The errors are those of Leader, except elector.ErrNoElection. What cannot be found out about one
// election is in its View.Trouble.
func (i *Inspector) List(ctx context.Context, under string, o ListOptions) (Listing, error) {
	ctx, cancel := i.bind(ctx)
	defer cancel()
	l := Listing{Under: under, Elections: []View{}}
	var err error
	if o.Most < 0 {
		err = fmt.Errorf("ListOptions.Most %d is negative: %w", o.Most, elector.ErrConfig)
	} else if o.Most == 0 {
		o.Most = defaultMost
	}
	var s *backend.Session
	var at time.Time
	if err == nil {
		s, at, err = i.begin(ctx, under)
	}
	for left := []string{under}; err == nil && len(left) > 0; {
		if l.Keys == o.Most {
			l.Missed = append(l.Missed, Missed{left[0], fmt.Sprintf("%d keys were looked at, and this and %d more were left: give Most, or a longer path", o.Most, len(left)-1)})
			break
		}
		now := left[:min(len(left), abreast, o.Most-l.Keys)]
		l.Keys += len(now)
		looks := make([]place, len(now))
		var all sync.WaitGroup
		for n, key := range now {
			looks[n].err = errEnded
			all.Go(func() { looks[n] = i.place(ctx, s, key, at) })
		}
		all.Wait()
		left = slices.Clone(left[len(now):])
		for _, p := range looks {
			if p.err != nil {
				err = p.err
				break
			}
			l.Elections = append(l.Elections, p.elections...)
			l.Missed = append(l.Missed, p.missed...)
			left = append(left, p.below...)
		}
	}
	slices.SortFunc(l.Elections, func(a, b View) int { return strings.Compare(a.Election, b.Election) })
	return l, fail(ctx, "list elections under", under, err)
}

// place is what was found at a key.
type place struct {
	elections []View // one at most
	below     []string
	missed    []Missed
	err       error
}

func (i *Inspector) place(ctx context.Context, s *backend.Session, key string, at time.Time) (p place) {
	keys, more, err := s.Children(ctx, key, page)
	if more {
		p.missed = append(p.missed, Missed{key, fmt.Sprintf("more than %d keys are directly under it, and %d were looked at", page, len(keys))})
	}
	var e found
	if err == nil {
		e, err = i.findBy(ctx, s, key, func(_ *found, mark string) (bool, error) { return slices.Contains(keys, mark), nil })
	}
	switch {
	case errors.Is(err, elector.ErrNoElection):
	case errors.Is(err, backend.ErrDenied), errors.Is(err, backend.ErrTooLarge):
		p.missed = append(p.missed, Missed{key, err.Error()})
		return p
	case err != nil:
		p.err = err
		return p
	default:
		v, err := e.summary(ctx, s, at)
		if ctx.Err() != nil || errors.Is(err, backend.ErrSessionLost) {
			p.err = err
			return p
		}
		if err != nil {
			v.Trouble = &Trouble{time.Now(), err.Error()}
		}
		p.elections = []View{v}
	}
	for _, child := range keys {
		if child != e.dir {
			p.below = append(p.below, child)
		}
	}
	slices.Sort(p.below)
	return p
}

// summary returns who leads and how many stand, without reading each candidate.
func (e found) summary(ctx context.Context, s *backend.Session, at time.Time) (View, error) {
	v := e.view(at)
	leader, err := e.leader(ctx, s)
	if err != nil {
		return v, err
	}
	if v.Leader = leaderOf(leader); v.Leader != nil {
		v.Count = 1
	}
	if !e.strategy.lists {
		return v, nil
	}
	listing, err := s.List(ctx, e.dir)
	if err != nil {
		return v, err
	}
	if v.Count += len(listing.Keys); v.Leader != nil && slices.Contains(listing.Keys, leader.Seat.Key) {
		v.Count--
	}
	return v, nil
}
