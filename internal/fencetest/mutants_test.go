package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/fence"
)

// selected is a check by a SELECT with a clause at its end.
func selected(clause string) checker {
	return func(ctx context.Context, d *database, tx *sql.Tx, token uint64) error {
		var stored uint64
		err := tx.QueryRowContext(ctx, "SELECT token FROM "+d.fence.Table+" WHERE name = '"+d.fence.Name+"' "+clause).Scan(&stored)
		if err == nil && stored != token {
			err = fmt.Errorf("%w by %d", fence.ErrDeposed, stored)
		}
		return err
	}
}

// mutants are checks that break the promise.
var mutants = []struct {
	name  string
	check checker
	on    fence.Dialect // 0: all
	does  string        // the kinds and levels where it holds, and why
}{
	{name: "no check", check: func(context.Context, *database, *sql.Tx, uint64) error { return nil }},
	{
		name: "without a lock", check: selected(""),
		does: "mariadb/Serializable: each SELECT takes the lock; " +
			"sqlite/Default: who has read something old cannot write; " +
			"sqlite-without-wal/Default: who reads lets nobody commit",
	},
	{name: "key share", on: fence.PostgreSQL, check: selected("FOR KEY SHARE")},
	{name: "in another transaction", check: func(ctx context.Context, d *database, _ *sql.Tx, token uint64) error {
		tx, err := d.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		return errors.Join(d.fence.Check(ctx, tx, token), tx.Commit())
	}},
	{name: "undone with a savepoint", on: fence.PostgreSQL, check: func(ctx context.Context, d *database, tx *sql.Tx, token uint64) error {
		_, err := tx.ExecContext(ctx, "SAVEPOINT before")
		if err == nil {
			err = d.fence.Check(ctx, tx, token)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT before")
		}
		return err
	}},
}

// The interleavings find checks that do less than Check.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
				if m.on != 0 && m.on != d.dialect {
					return
				}
				found := false
				for at := range steps {
					found = interleave(t, d, level, m.check, false, at).violated || found
				}
				require.Equal(t, !strings.Contains(m.does, d.name+"/"+level.String()), found)
			})
		})
	}
}

// On SQLite a SELECT is a sufficient check for writes to the same file, but not for an attached one.
func TestAttachedFile(t *testing.T) {
	for _, m := range []struct {
		name  string
		check checker
		found bool
	}{{"check", check, false}, {"without a lock", selected(""), true}} {
		t.Run(m.name, func(t *testing.T) {
			d := kinds[2].make(t)
			exec(t, d.DB, "DROP TABLE writes")
			d.SetMaxOpenConns(1) // each connection has its own files
			exec(t, d.DB, "ATTACH '"+filepath.Join(t.TempDir(), "other")+"' AS other")
			exec(t, d.DB, "CREATE TABLE other.writes (n INTEGER PRIMARY KEY, token BIGINT NOT NULL)")
			var main string
			require.NoError(t, d.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&main))
			d.claims = open(t, "sqlite", sqliteFile(main, "wal", 0))

			require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
			tx := d.begin(t, sql.LevelDefault)
			require.NoError(t, m.check(t.Context(), d, tx, 1))
			passed := make(chan struct{})
			claimed := d.aside(t, func(db *sql.DB) error { return d.fence.Claim(t.Context(), db, 2) }, func() error {
				close(passed)
				return nil
			})
			found := false
			select {
			case <-passed:
				found = true
			default:
			}
			require.NoError(t, write(t.Context(), tx, 1))
			require.NoError(t, tx.Commit())
			require.NoError(t, claimed())
			require.Equal(t, m.found, found, "the claim is through before the old leader's commit")
		})
	}
}

// A claim that reads and then writes loses a higher claim in between.
func TestClaimMutant(t *testing.T) {
	each(t, func(t *testing.T, d *database) {
		if d.dialect == fence.SQLite {
			return // it refuses a write after a read that came too early
		}
		require.NoError(t, d.fence.Claim(t.Context(), d.DB, 1))
		require.NoError(t, claimsAtOnce(t, d, 3, 2, func(ctx context.Context, db *sql.DB, token uint64) error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return err
			}
			var stored uint64
			row := " WHERE name = '" + d.fence.Name + "'"
			if err := tx.QueryRowContext(ctx, "SELECT token FROM "+d.fence.Table+row).Scan(&stored); err != nil {
				return err
			}
			if stored > token {
				return fence.ErrDeposed
			}
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET token = %d%s", d.fence.Table, token, row)); err != nil {
				return err
			}
			return tx.Commit()
		}))
		require.EqualValues(t, 2, d.stored(t), "3 is lost")
	})
}
