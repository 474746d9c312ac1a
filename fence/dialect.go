package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
)

// A Dialect is the SQL of one kind of database.
type Dialect int

// The dialects. Databases that only speak the protocol of one of them have other locks, and are not
// supported.
const (
	// PostgreSQL 9.5 or later, with $1 for the first argument.
	PostgreSQL Dialect = iota + 1
	// MySQL 5.6 or later and MariaDB, with ? for arguments. The table uses InnoDB. Tables that the leader
	// writes to must use it, too, or they are not part of its transactions.
	MySQL
	// SQLite 3.24 or later. Everything that the leader writes to is in the file with the table, or
	// attached to it.
	SQLite
)

// String returns the dialect's name.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// statements are the statements of a fence.
type statements struct {
	claim   string // raises the token, and locks the row against everybody else
	claimed string // reads the token after that, if claim does not return it
	engine  string // returns the table's engine, if some engines have no transactions

	lock  string // keeps claims out, if check does not
	check string // reads the token, and keeps claims out

	gate int64 // number of PostgreSQL's advisory lock, together with the table's number
}

// gate returns the part of the advisory lock's number that depends on the row, apart from the table. If
// two rows have the same number, their claims and checks wait for each other.
func gate(name string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, "elector fence\x00"+name) // never fails
	return int64(h.Sum64())
}

func (f Fence) statements() (statements, error) {
	t, err := f.Dialect.quote(f.Table)
	if err != nil {
		return statements{}, err
	}
	if err := checkName(f.Name); err != nil {
		return statements{}, err
	}
	switch f.Dialect {
	case PostgreSQL:
		// Row locks alone would keep the promise. But a request for a shared lock overtakes requests that
		// wait for an exclusive one, so a leader that continues for ever could keep the claim waiting. At
		// an advisory lock, all requests wait in order.
		return statements{
			gate: gate(f.Name),
			claim: `INSERT INTO ` + t + ` AS f (name, token)
				SELECT $1::text, $2::bigint FROM (SELECT pg_advisory_xact_lock($3::bigint # '` + t + `'::regclass::oid::bigint)) AS gate
				ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token)
				RETURNING f.token, current_setting('transaction_isolation')`,
			// KEY SHARE is not enough: it allows updates of columns outside the key.
			check: `SELECT token FROM ` + t + ` AS f, (SELECT pg_advisory_xact_lock_shared($2::bigint # '` + t + `'::regclass::oid::bigint)) AS gate
				WHERE name = $1 FOR SHARE OF f`,
		}, nil
	case MySQL:
		schema, table, found := strings.Cut(f.table(), ".")
		in := "'" + schema + "'" // both are plain identifiers
		if !found {
			table, in = schema, "DATABASE()"
		}
		return statements{
			// It locks the row even if it changes nothing.
			claim: `INSERT INTO ` + t + ` (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`,
			// FOR UPDATE reads the current row, not the row in REPEATABLE READ's snapshot.
			claimed: `SELECT token FROM ` + t + ` WHERE name = ? FOR UPDATE`,
			engine:  `SELECT engine FROM information_schema.tables WHERE table_schema = ` + in + ` AND table_name = '` + table + `'`,
			check:   `SELECT token FROM ` + t + ` WHERE name = ? LOCK IN SHARE MODE`, // MariaDB has no FOR SHARE
		}, nil
	default: // SQLite
		return statements{
			claim: `INSERT INTO ` + t + ` (name, token) VALUES (?, ?)
				ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE token < excluded.token`,
			claimed: `SELECT token FROM ` + t + ` WHERE name = ?`,
			// It changes nothing, but takes the writers' lock. A SELECT alone would let a claim pass until
			// the transaction's first write, and even after it for writes to an attached file.
			lock:  `UPDATE ` + t + ` SET token = token WHERE 0`,
			check: `SELECT token FROM ` + t + ` WHERE name = ?`,
		}, nil
	}
}

// claimOptions returns the options of a claim's own transaction. MySQL's READ COMMITTED does not work with
// statement-based binary logs, and a claim works at its other levels, too.
func (d Dialect) claimOptions() *sql.TxOptions {
	if d == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// claim raises the token, and returns the token that is then stored.
func (d Dialect) claim(ctx context.Context, tx *sql.Tx, s statements, name string, token int64) (stored int64, err error) {
	args := []any{name, token}
	if d == PostgreSQL {
		args = append(args, s.gate)
		level := ""
		if err := tx.QueryRowContext(ctx, s.claim, args...).Scan(&stored, &level); err != nil {
			return 0, err
		}
		if level != "read committed" && level != "read uncommitted" {
			return 0, fmt.Errorf("%w: %s", ErrIsolation, level)
		}
		return stored, nil
	}
	if d == MySQL {
		args = append(args, token)
	}
	if _, err := tx.ExecContext(ctx, s.claim, args...); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, s.claimed, name).Scan(&stored); err != nil {
		return 0, err
	}
	if s.engine == "" {
		return stored, nil
	}
	// Only after taking the lock: this may take the transaction's snapshot.
	var engine sql.NullString
	err = tx.QueryRowContext(ctx, s.engine).Scan(&engine)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if !strings.EqualFold(engine.String, "InnoDB") {
		return 0, fmt.Errorf("%w: %q", ErrEngine, engine.String)
	}
	return stored, nil
}
