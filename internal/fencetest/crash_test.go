package fencetest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A server that crashes forgets no claim, and commits no part of an open transaction.
func TestServerCrashes(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(t *testing.T) (*servertest.Server, *sql.DB, fence.Dialect)
	}{
		{"postgres", func(t *testing.T) (*servertest.Server, *sql.DB, fence.Dialect) {
			servertest.Long(t, "PostgreSQL")
			p, err := startPostgres(true)
			servertest.CloseAfterTest(t, err, p)
			return p, open(t, "pgx", postgresURL(p)), fence.PostgreSQL
		}},
		{"mariadb", func(t *testing.T) (*servertest.Server, *sql.DB, fence.Dialect) {
			servertest.Long(t, "MariaDB")
			m, err := startMariaDB(true)
			servertest.CloseAfterTest(t, err, m)
			exec(t, open(t, "mysql", mariadbDSN(m)), "CREATE DATABASE crash")
			return m, open(t, "mysql", mariadbDSN(m)+"crash"), fence.MySQL
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, db, dialect := c.start(t)
			f := fence.Fence{Dialect: dialect, Name: "/jobs"}
			require.NoError(t, f.CreateTable(t.Context(), db))
			exec(t, db, "CREATE TABLE writes (token BIGINT NOT NULL)")
			require.NoError(t, f.Claim(t.Context(), db, 1))
			old := (&database{DB: db, fence: f}).works(t, sql.LevelDefault, 1)
			restart := func() {
				require.NoError(t, s.Start())
				require.Eventually(t, func() bool { return db.PingContext(t.Context()) == nil }, wait.Patience, 10*time.Millisecond)
			}

			require.NoError(t, s.Kill())
			require.Error(t, old.Commit())
			restart()
			require.NoError(t, f.Claim(t.Context(), db, 2), "nobody holds the lock")
			wrote(t, db, 2, 0)

			require.NoError(t, s.Kill())
			restart()
			require.ErrorIs(t, f.Claim(t.Context(), db, 1), fence.ErrDeposed)
		})
	}
}
