package fence_test

import (
	"context"
	"database/sql"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/fence"
)

// A leader claims once per term, and checks in each transaction. A test in examples/fencing runs this.
func Example() {
	var e elector.Elector // from elector.New
	var db *sql.DB        // from sql.Open
	jobs := fence.Fence{Dialect: fence.PostgreSQL, Name: "/jobs/reindex"}

	send := func(ctx context.Context, t *elector.Term) error {
		tx, err := db.BeginTx(ctx, nil) // when ctx ends, it is rolled back
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := jobs.Check(ctx, tx, t.Token()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE invoices SET sent = sent + 1`); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = elector.Run(context.Background(), e, func(ctx context.Context, t *elector.Term) error {
		if err := jobs.Claim(ctx, db, t.Token()); err != nil {
			return err
		}
		for {
			if err := send(ctx, t); err != nil {
				return err
			}
		}
	})
}
