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

// A Dialect is the SQL of a kind of database.
type Dialect int

// The dialects. Databases that merely speak the protocol of one of them have locks of their own, and
// are not among them.
const (
	// PostgreSQL 9.5 or later, with $1 for the first argument.
	PostgreSQL Dialect = iota + 1
	// MySQL 5.6 or later and MariaDB, with ? for arguments. The table is of InnoDB; so are those that
	// the leader writes to, or they are not part of its transactions.
	MySQL
	// SQLite 3.24 or later. All that the leader writes to is in the file with the table, or attached to it.
	SQLite
)

// String is the dialect's name.
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

// statements are those of a fence.
type statements struct {
	claim   string // raises the token, and locks the row against all others
	claimed string // reads it after that, if claim does not return it
	engine  string // tells the table's engine, where there are some without transactions

	lock  string // keeps claims out, where check does not
	check string // reads the token, and keeps claims out

	gate int64 // of PostgreSQL's advisory lock, with the number of the table
}

// gate is what the number of the advisory lock before a row is made of, beside the table. If two rows
// have the same, their claims and checks wait for each other.
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
		// Row locks alone would keep the promise. But who asks for a shared one passes those who
		// wait for an exclusive one, and a leader that goes on for ever would keep the claim
		// waiting. Before an advisory lock all stand in line.
		return statements{
			gate: gate(f.Name),
			claim: `INSERT INTO ` + t + ` AS f (name, token)
				SELECT $1::text, $2::bigint FROM (SELECT pg_advisory_xact_lock($3::bigint # '` + t + `'::regclass::oid::bigint)) AS gate
				ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token)
				RETURNING f.token, current_setting('transaction_isolation')`,
			// KEY SHARE would not do: it lets updates pass of what is no key.
			check: `SELECT token FROM ` + t + ` AS f, (SELECT pg_advisory_xact_lock_shared($2::bigint # '` + t + `'::regclass::oid::bigint)) AS gate
				WHERE name = $1 FOR SHARE OF f`,
		}, nil
	case MySQL:
		schema, table, found := strings.Cut(f.table(), ".")
		in := "'" + schema + "'" // plain identifiers, both
		if !found {
			table, in = schema, "DATABASE()"
		}
		return statements{
			// It locks the row where it changes nothing, too.
			claim: `INSERT INTO ` + t + ` (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`,
			// FOR UPDATE reads the row as it is, and not as it was at REPEATABLE READ's snapshot.
			claimed: `SELECT token FROM ` + t + ` WHERE name = ? FOR UPDATE`,
			engine:  `SELECT engine FROM information_schema.tables WHERE table_schema = ` + in + ` AND table_name = '` + table + `'`,
			check:   `SELECT token FROM ` + t + ` WHERE name = ? LOCK IN SHARE MODE`, // FOR SHARE is not MariaDB's
		}, nil
	default: // SQLite
		return statements{
			claim: `INSERT INTO ` + t + ` (name, token) VALUES (?, ?)
				ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE token < excluded.token`,
			claimed: `SELECT token FROM ` + t + ` WHERE name = ?`,
			// It changes nothing, and takes the lock of writers. A SELECT alone would let a claim
			// pass until the transaction's first write, and after it for what is in an attached file.
			lock:  `UPDATE ` + t + ` SET token = token WHERE 0`,
			check: `SELECT token FROM ` + t + ` WHERE name = ?`,
		}, nil
	}
}

// claimOptions are those of a claim's own transaction. MySQL's READ COMMITTED does not go with
// binary logs of statements, and at its other levels a claim does as well.
func (d Dialect) claimOptions() *sql.TxOptions {
	if d == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// claim raises the token, and returns the one that is stored then.
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
	// After the lock is there: this may take the transaction's snapshot.
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
