package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

var toDisk = flag.Bool("sync", false, "have the databases wait for the disk at each commit")

var (
	postgres = servertest.Share(func() (*servertest.Server, error) { return startPostgres(*toDisk) })
	// With a binary log a commit has two phases, as on most servers in production.
	mariadb = servertest.Share(func() (*servertest.Server, error) {
		return startMariaDB(*toDisk, "--server-id=1", "--log-bin=binlog", "--binlog-format=ROW")
	})
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // it logs each connection that is cut off, as is intended here
	os.Exit(servertest.Main(m))
}

// A database has its own tables for one test: the fence's, and writes, which leaders write to.
type database struct {
	*sql.DB
	kind
	fence  fence.Fence
	claims *sql.DB // for claims that may have to wait
}

// A kind of database.
type kind struct {
	name    string
	dialect fence.Dialect
	levels  []sql.IsolationLevel

	open func(t testing.TB, name string) (db, claims *sql.DB, table string)
	auto string // a column that numbers the rows

	// waits reports whether a statement that contains a text waits for a lock. Without it the database
	// waits by polling, and claims polls only once.
	waits func(ctx context.Context, db *sql.DB, text string) (bool, error)
	// transient reports whether an error means that the transaction must be repeated.
	transient func(error) bool
}

var kinds = []kind{
	{
		name: "postgres", dialect: fence.PostgreSQL,
		levels: []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		open: func(t testing.TB, name string) (db, claims *sql.DB, table string) {
			servertest.Long(t, "PostgreSQL")
			url := postgresURL(postgres.ForTest(t))
			exec(t, open(t, "pgx", url), "CREATE SCHEMA "+name)
			db = open(t, "pgx", url+"&search_path="+name)
			return db, db, name + ".fences"
		},
		auto: "n bigserial PRIMARY KEY",
		waits: func(ctx context.Context, db *sql.DB, text string) (is bool, err error) {
			err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%')`, text).Scan(&is)
			return is, err
		},
		transient: func(err error) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
		},
	},
	{
		name: "mariadb", dialect: fence.MySQL,
		levels: []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		open: func(t testing.TB, name string) (db, claims *sql.DB, table string) {
			servertest.Long(t, "MariaDB")
			dsn := mariadbDSN(mariadb.ForTest(t))
			exec(t, open(t, "mysql", dsn), "CREATE DATABASE "+name)
			db = open(t, "mysql", dsn+name)
			return db, db, name + ".fences"
		},
		auto: "n BIGINT AUTO_INCREMENT PRIMARY KEY",
		// The table innodb_trx is a copy that is not refreshed while it is read all the time.
		waits: func(ctx context.Context, db *sql.DB, text string) (bool, error) {
			var kind, name, status string
			err := db.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status)
			for transaction := range strings.SplitSeq(status, "---TRANSACTION ") {
				if strings.Contains(transaction, "LOCK WAIT") && strings.Contains(transaction, text) {
					return true, err
				}
			}
			return false, err
		},
		transient: func(err error) bool {
			var e *mysql.MySQLError
			return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205 || e.Number == 1020)
		},
	},
	onSQLite("sqlite", "wal"),
	onSQLite("sqlite-without-wal", "delete"),
}

func onSQLite(name, journal string) kind {
	return kind{
		name: name, dialect: fence.SQLite,
		levels: []sql.IsolationLevel{sql.LevelDefault}, // it has only one
		open: func(t testing.TB, name string) (db, claims *sql.DB, table string) {
			file := filepath.Join(t.TempDir(), name)
			return open(t, "sqlite", sqliteFile(file, journal, wait.Patience)), open(t, "sqlite", sqliteFile(file, journal, 0)), "main.fences"
		},
		auto: "n INTEGER PRIMARY KEY",
		transient: func(err error) bool {
			var e *sqlite.Error
			return errors.As(err, &e) && e.Code()&0xff == 5 // SQLITE_BUSY of any kind
		},
	}
}

func sqliteFile(file, journal string, busy time.Duration) string {
	sync := "off"
	if *toDisk {
		sync = "full"
	}
	return fmt.Sprintf("%s?_pragma=busy_timeout(%d)&_pragma=synchronous(%s)&_pragma=journal_mode(%s)", file, busy.Milliseconds(), sync, journal)
}

func open(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open(driver, name))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	must.Get(db.ExecContext(t.Context(), statement))(t)
}

var databases atomic.Int64

// make makes a database of the kind.
func (k kind) make(t testing.TB) *database {
	t.Helper()
	name := fmt.Sprintf("d%d", databases.Add(1))
	db, claims, table := k.open(t, name)
	d := &database{DB: db, claims: claims, kind: k, fence: fence.Fence{Dialect: k.dialect, Table: table, Name: "/jobs/" + name}}
	require.NoError(t, d.fence.CreateTable(t.Context(), db))
	exec(t, db, "CREATE TABLE writes ("+k.auto+", token BIGINT NOT NULL)")
	return d
}

// each runs a test on each kind of database.
func each(t *testing.T, try func(t *testing.T, d *database)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			try(t, k.make(t))
		})
	}
}

// eachLevel runs a test at each isolation level of each kind.
func eachLevel(t *testing.T, try func(t *testing.T, d *database, level sql.IsolationLevel)) {
	for _, k := range kinds {
		for _, level := range k.levels {
			t.Run(k.name+"/"+strings.ReplaceAll(level.String(), " ", "-"), func(t *testing.T) {
				t.Parallel()
				try(t, k.make(t), level)
			})
		}
	}
}

func (d *database) begin(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx := must.Get(d.BeginTx(t.Context(), &sql.TxOptions{Isolation: level}))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// before returns how many rows leaders with lower tokens have written.
func before(ctx context.Context, in querier, token uint64) (n int, err error) {
	err = in.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM writes WHERE token < %d", token)).Scan(&n)
	return n, err
}

func write(ctx context.Context, tx *sql.Tx, token uint64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO writes (token) VALUES (%d)", token))
	return err
}

// works begins a transaction that checks and writes with a token that has claimed.
func (d *database) works(t testing.TB, level sql.IsolationLevel, token uint64) *sql.Tx {
	t.Helper()
	tx := d.begin(t, level)
	require.NoError(t, d.fence.Check(t.Context(), tx, token))
	require.NoError(t, write(t.Context(), tx, token))
	return tx
}

// wrote checks how many rows leaders with lower tokens have written.
func wrote(t testing.TB, in querier, token uint64, want int) {
	t.Helper()
	n := must.Get(before(t.Context(), in, token))(t)
	require.Equal(t, want, n)
}

// stored returns the token in the fence's row.
func (d *database) stored(t testing.TB) (token uint64) {
	t.Helper()
	err := d.QueryRowContext(t.Context(), "SELECT token FROM "+d.fence.Table+" WHERE name = '"+d.fence.Name+"'").Scan(&token)
	require.NoError(t, err)
	return token
}

// aside makes a goroutine claim, and then call then. aside returns when that is done, or when the claim
// waits for a lock. done waits for the goroutine and returns its error.
func (d *database) aside(t testing.TB, claim func(db *sql.DB) error, then func() error) (done func() error) {
	t.Helper()
	over, refused := make(chan struct{}), make(chan struct{}, 1)
	var err error
	go func() {
		defer close(over)
		for {
			err = claim(d.claims)
			if d.waits != nil || err == nil || !d.transient(err) {
				break
			}
			select {
			case refused <- struct{}{}:
			default:
			}
			time.Sleep(time.Millisecond)
		}
		if err == nil {
			err = then()
		}
	}()
	done = func() error {
		<-over
		return err
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		select {
		case <-over:
			return done
		case <-refused:
			return done
		default:
		}
		require.Less(t, time.Since(begun), wait.Patience, "it neither waits nor comes to its end")
		if d.waits == nil {
			continue
		}
		// The package quotes the table's name; the mutant of a claim does not.
		schema, _, _ := strings.Cut(d.fence.Table, ".")
		for _, text := range []string{`"` + schema + `".`, "`" + schema + "`.", "UPDATE " + d.fence.Table} {
			waits := must.Get(d.waits(t.Context(), d.DB, text))(t)
			if waits {
				return done
			}
		}
	}
}

func nothing() error { return nil }
