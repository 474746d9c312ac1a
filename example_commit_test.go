package elector_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// step writes the state, and moves the cursor on from the version that was read. README.md shows it.
func step(ctx context.Context, t *elector.Term, cursor backend.Entry, state, next []byte) error {
	_, err := t.Commit(ctx,
		elector.Put("/jobs/reindex-state", state),
		elector.CompareAndSet(cursor.Key, next, cursor.Version)) // cursor is a backend.Entry that you have read
	if errors.Is(err, elector.ErrDeposed) {
		return err // nothing was written: this term is over
	}
	return err
}

// A cursor passes the work from leader to leader: each reads where the last one stopped, with a read that
// sees all that earlier leaders have committed.
func ExampleTerm_Commit_cursor() {
	const key = "/jobs/reindex-cursor" // beside the election, not below it
	ctx := context.Background()
	service := memory.New(memory.Options{})
	if err := service.Put(key, []byte("0")); err != nil { // an operator's initial setup
		log.Fatal(err)
	}
	lead := func(id string, pieces int) {
		e, err := elector.New(elector.Config{Backend: service, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: id})
		if err != nil {
			log.Fatal(err)
		}
		defer e.Close(ctx)
		term, err := e.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for range pieces {
			cursor, err := term.Get(ctx, key)
			if err != nil {
				log.Fatal(err)
			}
			var done int
			if _, err := fmt.Sscan(string(cursor.Value), &done); err != nil {
				log.Fatal(err)
			}
			if err := step(ctx, term, cursor, []byte("by "+id), fmt.Append(nil, done+1)); err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s has done piece %d\n", id, done+1)
		}
	}
	lead("anna", 2)
	lead("ben", 1)
	// Output:
	// anna has done piece 1
	// anna has done piece 2
	// ben has done piece 3
}

// For what Commit does not offer, a transaction of your own uses the term's conditions. For native
// clients, zookeeper.Checks, etcd.Cmps and consul.Checks convert them. The backend's own session accepts
// them on every service:
func ExampleTerm_Guard() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{Backend: service, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "anna"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	term, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}

	// An ephemeral entry, which goes with the leader's session. Commit makes only persistent ones.
	g := term.Guard()
	_, err = g.Session.Commit(ctx, g.Conditions, backend.CreateEphemeral("/jobs/reindex-progress", []byte("3 %")))
	fmt.Println("while it leads:", err)

	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = g.Session.Commit(ctx, g.Conditions, backend.CreateEphemeral("/jobs/reindex-late", nil))
	fmt.Println("refused:", errors.Is(err, backend.ErrCondition))
	// Output:
	// while it leads: <nil>
	// refused: true
}
