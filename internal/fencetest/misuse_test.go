package fencetest

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/fence"
)

// After any error the transaction is gone.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 5))
		with := func(change func(*fence.Fence)) fence.Fence {
			f := d.fence
			change(&f)
			return f
		}
		for _, c := range []struct {
			name  string
			fence fence.Fence
			token uint64
			check error
			claim error // nil if it succeeds
		}{
			{"token 0", d.fence, 0, fence.ErrToken, fence.ErrToken},
			{"token over a signed column", d.fence, 1 << 63, fence.ErrToken, fence.ErrToken},
			{"not claimed", d.fence, 6, fence.ErrNotClaimed, nil},
			{"nobody has claimed", with(func(f *fence.Fence) { f.Name = "/other" }), 5, fence.ErrNotClaimed, nil},
			{"another case", with(func(f *fence.Fence) { f.Name = strings.ToUpper(f.Name) }), 5, fence.ErrNotClaimed, nil},
			{"a space at the end", with(func(f *fence.Fence) { f.Name += " " }), 5, fence.ErrNotClaimed, nil},
			{"no name", with(func(f *fence.Fence) { f.Name = "" }), 5, elector.ErrConfig, elector.ErrConfig},
			{"a name too long", with(func(f *fence.Fence) { f.Name = strings.Repeat("ä", 128) }), 5, elector.ErrConfig, elector.ErrConfig},
			{"the longest name", with(func(f *fence.Fence) { f.Name = strings.Repeat("ä", 127) + "x" }), 5, fence.ErrNotClaimed, nil},
			{"a quote in the name", with(func(f *fence.Fence) { f.Name = `'"\` + "`" }), 5, fence.ErrNotClaimed, nil},
			{"NUL in the name", with(func(f *fence.Fence) { f.Name = "a\x00" }), 5, elector.ErrConfig, elector.ErrConfig},
			{"no UTF-8", with(func(f *fence.Fence) { f.Name = "\xff" }), 5, elector.ErrConfig, elector.ErrConfig},
			{"a table with a quote", with(func(f *fence.Fence) { f.Table = `a"b` }), 5, elector.ErrConfig, elector.ErrConfig},
			{"no dialect", with(func(f *fence.Fence) { f.Dialect = 0 }), 5, elector.ErrConfig, elector.ErrConfig},
		} {
			tx := d.begin(t, sql.LevelDefault)
			require.NoError(t, write(t.Context(), tx, c.token%(1<<62)))
			require.ErrorIs(t, c.fence.Check(t.Context(), tx, c.token), c.check, c.name)
			require.ErrorIs(t, tx.Commit(), sql.ErrTxDone, c.name)
			if c.claim != nil {
				require.ErrorIs(t, c.fence.Claim(t.Context(), d.DB, c.token), c.claim, c.name)
				tx := d.begin(t, sql.LevelDefault)
				require.ErrorIs(t, c.fence.ClaimTx(t.Context(), tx, c.token), c.claim, c.name)
				require.ErrorIs(t, tx.Commit(), sql.ErrTxDone, c.name)
				continue
			}
			require.NoError(t, c.fence.Claim(t.Context(), d.DB, c.token), c.name)
			tx = d.begin(t, sql.LevelDefault)
			require.NoError(t, c.fence.Check(t.Context(), tx, c.token), c.name)
			require.NoError(t, tx.Rollback())
		}
		wrote(t, d, 1<<62, 0)

		missing := with(func(f *fence.Fence) { f.Table = "missing" })
		tx := d.begin(t, sql.LevelDefault)
		require.Error(t, missing.Check(t.Context(), tx, 5))
		require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
		require.Error(t, missing.Claim(t.Context(), d.DB, 5))

		ended, cancel := context.WithCancel(t.Context())
		tx = d.begin(t, sql.LevelDefault)
		cancel()
		require.ErrorIs(t, d.fence.Check(ended, tx, 5), context.Canceled)
		require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
	})
}

// All candidates may create the table when they start.
func TestCreateTable(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		for _, table := range []string{"", "order", strings.Repeat("x", 63)} { // including a reserved word
			f := d.fence
			f.Table = table
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { assert.NoError(t, f.CreateTable(t.Context(), d.DB)) })
			}
			all.Wait()
			require.NoError(t, f.Claim(t.Context(), d.DB, 1))
			require.NoError(t, f.CreateTable(t.Context(), d.DB))
			require.ErrorIs(t, f.Claim(t.Context(), d.DB, 0), fence.ErrToken)
			tx := d.begin(t, sql.LevelDefault)
			require.NoError(t, f.Check(t.Context(), tx, 1), "what was claimed is still there")
			require.NoError(t, tx.Rollback())
		}
		f := d.fence
		f.Table = "no/table"
		require.ErrorIs(t, f.CreateTable(t.Context(), d.DB), elector.ErrConfig)
	})
}

// A table without transactions is refused.
func TestEngine(t *testing.T) {
	d := kinds[1].make(t)
	for _, engine := range []string{"MyISAM", "Aria", "MEMORY"} {
		f := d.fence
		f.Table = "of_" + engine
		exec(t, d.DB, "CREATE TABLE "+f.Table+" (name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL) ENGINE="+engine)
		require.ErrorIs(t, f.Claim(t.Context(), d.DB, 1), fence.ErrEngine)
		require.ErrorContains(t, f.Claim(t.Context(), d.DB, 1), engine)
	}
}

// A statement in a deadlock ends the transaction on MySQL, and later statements commit by themselves. The
// package's comment warns of that: roll back after an error.
func TestDeadlockEndsTheTransaction(t *testing.T) {
	d := kinds[1].make(t)
	require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
	exec(t, d.DB, "INSERT INTO writes (n, token) VALUES (1, 0), (2, 0)")
	one, two := d.begin(t, sql.LevelDefault), d.begin(t, sql.LevelDefault)
	lock := func(tx *sql.Tx, n int) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE writes SET token = token + 1 WHERE n = ?", n)
		return err
	}
	for _, tx := range []*sql.Tx{one, two} {
		require.NoError(t, d.fence.Check(t.Context(), tx, 1))
	}
	require.NoError(t, lock(one, 1))
	require.NoError(t, lock(two, 2))
	second := make(chan error, 1)
	go func() { second <- lock(two, 1) }()
	victim, survivor, err := one, two, lock(one, 2)
	if err == nil { // after the other one has ended
		victim, survivor, err = two, one, <-second
	} else {
		require.NoError(t, <-second)
	}
	require.True(t, d.transient(err), err)
	require.NoError(t, survivor.Rollback())
	require.NoError(t, d.fence.Claim(t.Context(), d.DB, 2), "the lock is gone with the transaction")
	require.NoError(t, write(t.Context(), victim, 1), "who goes on")
	require.NoError(t, victim.Rollback())
	var n int
	require.NoError(t, d.QueryRowContext(t.Context(), "SELECT count(*) FROM writes WHERE token = 1 AND n > 2").Scan(&n))
	require.Equal(t, 1, n, "has written without a transaction")
}
