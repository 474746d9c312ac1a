package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/strategy/fair"
)

// The story of this example, with package fence instead of table.go: whole transactions of any tables,
// instead of single statements on one.
func Example_transactions() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "fencing-")
	defer os.RemoveAll(dir)
	db, _ := sql.Open("sqlite", filepath.Join(dir, "jobs.db")+"?_pragma=busy_timeout(30000)")
	defer db.Close()
	jobs := fence.Fence{Dialect: fence.SQLite, Name: "/invoices"}
	if err := jobs.CreateTable(ctx, db); err != nil {
		fmt.Println(err)
	}
	_, _ = db.ExecContext(ctx, `CREATE TABLE sent (invoice INTEGER PRIMARY KEY, by_whom TEXT)`)

	send := func(t *elector.Term, who string, invoice int) error {
		tx, err := db.BeginTx(ctx, nil) // of a leader that has not heard yet that its term is over
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := jobs.Check(ctx, tx, t.Token()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO sent VALUES (?, ?)`, invoice, who); err != nil {
			return err
		}
		return tx.Commit()
	}
	service := memory.New(memory.Options{DefaultTTL: 200 * time.Millisecond})
	lead := func(who string) (*memory.Client, *elector.Term) {
		client := service.Client(who)
		e, err := elector.New(elector.Config{Backend: client, Strategy: fair.Strategy{}, Election: "/invoices", ID: who})
		if err != nil {
			fmt.Println(err)
		}
		t, err := e.Campaign(ctx)
		if err == nil {
			err = jobs.Claim(ctx, db, t.Token()) // once per term, before it reads anything
		}
		fmt.Println(who, "leads:", err)
		return client, t
	}

	annas, annasTerm := lead("anna")
	fmt.Println("anna sends invoice 1:", send(annasTerm, "anna", 1))
	annas.Suspend() // anna is paused right before the next one
	_, bensTerm := lead("ben")
	fmt.Println("ben sends invoice 2:", send(bensTerm, "ben", 2))
	annas.Resume()
	fmt.Println("anna is deposed:", errors.Is(send(annasTerm, "anna", 2), elector.ErrDeposed))
	// Output:
	// anna leads: <nil>
	// anna sends invoice 1: <nil>
	// ben leads: <nil>
	// ben sends invoice 2: <nil>
	// anna is deposed: true
}
