package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/internal/wait"
)

// A checker is Fence.Check, or a wrong substitute.
type checker func(ctx context.Context, d *database, tx *sql.Tx, token uint64) error

func check(ctx context.Context, d *database, tx *sql.Tx, token uint64) error {
	return d.fence.Check(ctx, tx, token)
}

// An outcome is the result of an old leader's transaction, and of the next leader's claim at some point in
// it.
type outcome struct {
	err      error // of the transaction, nil if it was committed
	violated bool  // it was committed, and the next leader did not see that after its claim
}

// steps is the number of steps of the old leader's transaction after its begin.
const steps = 4

// interleave makes a new leader claim just before one of the steps of an old leader's transaction, or after
// the last. The transaction continues once the claim has passed, or waits.
func interleave(t *testing.T, d *database, level sql.IsolationLevel, check checker, checkLast bool, at int) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	old := uint64(1)
	if d.fence.Claim(ctx, d.DB, old) != nil {
		old = d.stored(t) // from the interleaving before
	}
	tx := d.begin(t, level)
	do := []func() error{
		func() error { return check(ctx, d, tx, old) },
		func() error { _, err := before(ctx, tx, old); return err },
		func() error { return write(ctx, tx, old) },
		tx.Commit,
	}
	require.Len(t, do, steps)
	if checkLast {
		do = append(append(do[1:3:3], do[0]), do[3])
	}

	var seen int
	var claimed func() error
	claim := func() {
		claimed = d.aside(t, func(db *sql.DB) error { return d.fence.Claim(ctx, db, old+1) }, func() (err error) {
			seen, err = before(ctx, d, old+1)
			return err
		})
	}
	var err error
	for i, step := range do {
		if i == at {
			claim()
		}
		if err = step(); err != nil {
			_ = tx.Rollback()
			break
		}
	}
	if claimed == nil {
		claim()
	}
	require.NoError(t, claimed())
	after, readErr := before(ctx, d, old+1)
	require.NoError(t, readErr)
	return outcome{err, after != seen}
}

// The promise: a transaction of an old leader is committed before the next leader's claim, or fails.
func TestInterleaved(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		for _, checkLast := range []bool{false, true} {
			checked := 0 // up to this step the check sees the claim
			if checkLast {
				checked = 2
			}
			for at := range steps + 1 {
				about := fmt.Sprintf("check last: %t; claim before step %d", checkLast, at)
				got := interleave(t, d, level, check, checkLast, at)
				assert.False(t, got.violated, about)
				switch {
				case got.err == nil && d.dialect == fence.SQLite && at > 0:
					// It had already read or written, and the claim waited for that.
				case at <= checked:
					assert.True(t, d.deposes(got.err), "%s: %v", about, got.err)
				default:
					assert.NoError(t, got.err, about)
				}
			}
		}
	})
}

// deposes reports whether an error says, perhaps in the database's words, that another leader was faster.
func (d *database) deposes(err error) bool {
	return err != nil && (d.transient(err) || assert.ErrorIs(discard{}, err, fence.ErrDeposed))
}

type discard struct{}

func (discard) Errorf(string, ...any) {}

func TestErrDeposed(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 34))
		for _, level := range d.levels {
			tx := d.begin(t, level)
			err := d.fence.Check(t.Context(), tx, 33)
			require.ErrorIs(t, err, fence.ErrDeposed)
			require.ErrorIs(t, err, elector.ErrDeposed)
			require.ErrorContains(t, err, "33, and 34 has claimed")
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone, "who does not look at the error commits nothing")
		}
		require.ErrorIs(t, d.fence.Claim(t.Context(), d.DB, 33), fence.ErrDeposed)
		require.EqualValues(t, 34, d.stored(t))
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 34), "it may claim again")
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1<<63-1))
		require.EqualValues(t, uint64(1<<63-1), d.stored(t))
	})
}

// Transactions of one leader run in parallel, if the database allows several writers.
func TestSideBySide(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		if d.dialect == fence.SQLite {
			return // one writer
		}
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 5))
		one, two := d.works(t, level, 5), d.works(t, level, 5)
		require.NoError(t, two.Commit())
		require.NoError(t, one.Commit())
	})
}

// A claim in the caller's own transaction also waits for the old leader's transaction, and later statements
// see what that one wrote. Otherwise the claim is refused.
func TestClaimTx(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		old := d.works(t, sql.LevelDefault, 1)

		var tx *sql.Tx
		claimed := d.aside(t, func(db *sql.DB) (err error) {
			if tx, err = db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level}); err == nil {
				err = d.fence.ClaimTx(t.Context(), tx, 2)
			}
			return err
		}, nothing)
		require.NoError(t, old.Commit())
		err := claimed()
		if d.dialect == fence.PostgreSQL && level != sql.LevelReadCommitted {
			require.ErrorIs(t, err, fence.ErrIsolation)
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
			return
		}
		require.NoError(t, err)
		wrote(t, tx, 2, 1) // by the old leader
		require.NoError(t, d.fence.Check(t.Context(), tx, 2), "it has claimed")
		require.NoError(t, tx.Commit())
		require.EqualValues(t, 2, d.stored(t))

		undone := d.begin(t, sql.LevelDefault)
		require.NoError(t, d.fence.ClaimTx(t.Context(), undone, 3))
		require.NoError(t, undone.Rollback())
		require.EqualValues(t, 2, d.stored(t), "a claim counts once it is committed")
	})
}

// A check during a pending claim waits for the claim, and depends on its outcome.
func TestCheckWaitsForAClaim(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
			next := d.begin(t, d.claimLevel())
			require.NoError(t, d.fence.ClaimTx(t.Context(), next, 2))
			checked := d.aside(t, func(db *sql.DB) error {
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				if err != nil {
					return err
				}
				defer tx.Rollback()
				return d.fence.Check(t.Context(), tx, 1)
			}, nothing)
			require.NoError(t, end(next))
			err := checked()
			if d.stored(t) == 1 {
				require.NoError(t, err)
			} else {
				require.True(t, d.deposes(err), err)
			}
		}
		require.EqualValues(t, 2, d.stored(t))
	})
}

// claimLevel is a level at which ClaimTx does not refuse.
func (d *database) claimLevel() sql.IsolationLevel {
	if d.dialect == fence.PostgreSQL {
		return sql.LevelReadCommitted
	}
	return sql.LevelDefault
}

// Of two concurrent claims the higher one stays, in either order.
func TestClaimsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for round := range 2 {
			first, second := uint64(10*round+3), uint64(10*round+2)
			if round == 1 {
				first, second = second, first
			}
			got := claimsAtOnce(t, d, first, second, d.fence.Claim)
			if first > second {
				require.ErrorIs(t, got, fence.ErrDeposed)
			} else {
				require.NoError(t, got)
			}
			require.Equal(t, max(first, second), d.stored(t))
		}
	})
}

// claimsAtOnce claims with the second token while a claim with the first is not yet committed.
func claimsAtOnce(t *testing.T, d *database, first, second uint64, claim func(context.Context, *sql.DB, uint64) error) error {
	t.Helper()
	tx := d.begin(t, d.claimLevel())
	require.NoError(t, d.fence.ClaimTx(t.Context(), tx, first))
	claimed := d.aside(t, func(db *sql.DB) error { return claim(t.Context(), db, second) }, nothing)
	require.NoError(t, tx.Commit())
	return claimed()
}
