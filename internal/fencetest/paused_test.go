package fencetest

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/internal/must"
)

// If an old leader is paused in a transaction that it has checked, with the connection open and silent, the
// next leader's claim waits until its ctx ends. (On SQLite until the busy timeout: no ctx ends a wait of
// its driver.)
func TestPausedLeader(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		old := d.works(t, level, 1)

		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := d.fence.Claim(ctx, d.claims, 2)
		require.Error(t, err)
		require.NotErrorIs(t, err, fence.ErrDeposed)
		require.EqualValues(t, 1, d.stored(t))

		require.NoError(t, d.fence.Check(t.Context(), old, 1), "it goes on, and its lock is still there")
		require.NoError(t, old.Commit())
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 2), "claim again")
		wrote(t, d, 2, 1)
	})
}

// The server can end the transactions of a paused leader: the claim passes, and the old leader's commit
// fails.
func TestPausedLeaderIsCutOff(t *testing.T) {
	settings := map[fence.Dialect]string{
		fence.PostgreSQL: "SET LOCAL idle_in_transaction_session_timeout = '300ms'",
		fence.MySQL:      "SET idle_transaction_timeout = 1", // seconds
	}
	each(t, func(t *testing.T, d *database) {
		if settings[d.dialect] == "" {
			return // SQLite has no server
		}
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		old := d.works(t, sql.LevelDefault, 1)
		_, err := old.ExecContext(t.Context(), settings[d.dialect]) // now: a slow test must not be cut off earlier
		require.NoError(t, err)

		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 2))
		require.Error(t, old.Commit())
		wrote(t, d, 2, 0)
	})
}

// A leader whose ctx ends releases the lock at once.
func TestContextEnds(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		old := must.Get(d.BeginTx(ctx, nil))(t)
		require.NoError(t, d.fence.Check(ctx, old, 1))
		require.NoError(t, write(ctx, old, 1))
		claimed := d.aside(t, func(db *sql.DB) error { return d.fence.Claim(t.Context(), db, 2) }, nothing)
		cancel()
		require.NoError(t, claimed())
		require.Error(t, old.Commit())
	})
}

// If an old leader always has a transaction with the lock, the next claim still passes, and no later
// transaction of the old leader overtakes it.
func TestClaimStandsInLine(t *testing.T) {
	const atOnce = 8
	each(t, func(t *testing.T, d *database) {
		if d.dialect == fence.SQLite {
			return // nobody waits in line there
		}
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		var checked atomic.Int64
		transaction := func() error {
			tx, err := d.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := d.fence.Check(t.Context(), tx, 1); err != nil {
				return err
			}
			checked.Add(1)
			time.Sleep(5 * time.Millisecond)
			return tx.Commit()
		}
		var old sync.WaitGroup
		for range atOnce {
			old.Go(func() {
				var err error
				for err == nil {
					err = transaction()
				}
				assert.ErrorIs(t, err, fence.ErrDeposed)
			})
		}
		for checked.Load() < 3*atOnce {
			time.Sleep(time.Millisecond)
		}
		var through int64
		claimed := d.aside(t, func(db *sql.DB) error { return d.fence.Claim(t.Context(), db, 2) }, func() error {
			through = checked.Load()
			return nil
		})
		waiting := checked.Load()
		require.NoError(t, claimed())
		old.Wait()
		require.LessOrEqual(t, through-waiting, int64(atOnce), "transactions that passed the claim")
	})
}
