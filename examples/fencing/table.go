package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // SQLite in Go: a real database without a C compiler or a server
)

var (
	errOldToken = errors.New("old token")
	errNoToken  = errors.New("no token: 0 is none")
	errNoJob    = errors.New("no such job")
)

// A Table keeps jobs in a SQL database. Each row remembers the highest token that has written it, and refuses
// lower ones.
//
// The look at the token and the write are one statement. A SELECT of the token, and an UPDATE if it is low
// enough, would be wrong: a newer leader can write between the two, and the UPDATE would undo that. It would
// be the pause between check and write again, in another place.
//
// The condition is token <= ours. With < a leader could write only once per term: its second write meets its
// own token.
//
// There is no delete: the token would go with the row, and nothing would refuse the late write of an older
// leader. Write a value that says "deleted" instead.
type Table struct{ db *sql.DB }

// Tokens are uint64 and fit a signed column. database/sql refuses one that does not, instead of storing a
// negative number, which every old token would exceed.
const schema = `
CREATE TABLE IF NOT EXISTS jobs     (name TEXT PRIMARY KEY, value TEXT NOT NULL, token INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS unfenced (name TEXT PRIMARY KEY, value TEXT NOT NULL)`

// OpenTable opens the database file, and creates it if there is none. Several processes may have it open. The
// caller closes it.
func OpenTable(ctx context.Context, file string) (*Table, error) {
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(30000)") // ms to wait for another writer
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Table{db}, nil
}

// Close closes the database.
func (t *Table) Close() error { return t.db.Close() }

// Claim shuts out all older leaders from a job, whether or not there is a row yet. A new leader claims before
// it reads what it will change. If it read first, a write of the old leader could still come between that
// read and its own first write, which would then undo it unseen.
func (t *Table) Claim(ctx context.Context, token uint64, name string) error {
	return t.write(ctx, token, name, `
		INSERT INTO jobs (name, value, token) VALUES (?, '', ?)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE jobs.token <= excluded.token`, name, token)
}

// Update writes an existing job. The error is errNoJob if there is none.
func (t *Table) Update(ctx context.Context, token uint64, name, value string) error {
	return t.write(ctx, token, name, `
		UPDATE jobs SET value = ?, token = ?
		WHERE name = ? AND token <= ?`, value, token, name, token)
}

// Put writes a job, existing or not, on the same condition. INSERT OR REPLACE would check no token.
func (t *Table) Put(ctx context.Context, token uint64, name, value string) error {
	return t.write(ctx, token, name, `
		INSERT INTO jobs (name, value, token) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
		WHERE jobs.token <= excluded.token`, name, value, token)
}

// write executes a statement that writes one row or, if refused, none.
func (t *Table) write(ctx context.Context, token uint64, name, statement string, args ...any) error {
	if token == 0 {
		return errNoToken
	}
	result, err := t.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows > 0 {
		return err
	}
	// Nothing was written. This read only finds out what to report.
	_, highest, err := t.Get(ctx, name)
	switch {
	case err != nil:
		return err
	case highest <= token:
		return fmt.Errorf("%w: %s has been made only since", errNoJob, name)
	}
	return fmt.Errorf("%w: %d, and %d has written %s", errOldToken, token, highest, name)
}

// Get reads a job, and the token of its last writer. The error is errNoJob if there is none.
func (t *Table) Get(ctx context.Context, name string) (value string, token uint64, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT value, token FROM jobs WHERE name = ?`, name).Scan(&value, &token)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %s", errNoJob, name)
	}
	return value, token, err
}
