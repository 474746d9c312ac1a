// Package fence keeps late transactions of an old leader out of a SQL database. It uses database/sql with
// PostgreSQL, InnoDB of MariaDB and MySQL, and SQLite.
//
// # What it guarantees
//
// Once a leader has claimed with its token, no transaction that was checked with a lower token commits any
// more. An open transaction commits before the claim, which waits for it, or fails. So what a leader reads
// after its claim includes everything that earlier leaders have committed, and they commit nothing later.
//
// # What it does not guarantee
//
//   - Writes of transactions without a check, or in another database, are not fenced.
//   - If one server takes over from another and lacks committed transactions, it may also lack the highest
//     token. The same holds for several servers that all accept writes, such as those of Galera: each has
//     row locks of its own.
//   - A claim waits for the old leader's open transactions as long as a paused process keeps them open.
//     See Waiting.
//
// # How
//
//	var jobs = fence.Fence{Dialect: fence.PostgreSQL, Name: "/jobs/reindex"}
//
//	err := elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
//		if err := jobs.Claim(ctx, db, t.Token()); err != nil { // once per term, before it reads anything
//			return err
//		}
//		…
//		tx, err := db.BeginTx(ctx, nil) // when ctx ends, database/sql rolls it back
//		if err != nil {
//			return err
//		}
//		defer tx.Rollback()
//		if err := jobs.Check(ctx, tx, t.Token()); err != nil { // in each transaction
//			return err // tx has been rolled back
//		}
//		…
//		return tx.Commit()
//	})
//
// [Fence.CreateTable] makes the table, and [Schema] returns its statement for your migrations. A user that
// claims and checks needs the rights to SELECT, INSERT and UPDATE in it. Nobody else may change it.
//
// # Where to check
//
// Begin the transaction after Claim has returned. The position of Check in it does not affect the
// guarantee. As the first statement, it fails earliest. As the last, it holds the lock for the shortest
// time, which matters on SQLite, where there is only one lock for all writers.
//
// Do not check after a SAVEPOINT that you may roll back to: PostgreSQL then releases the lock. After an
// error of any statement, roll back. MySQL and SQLite end a transaction by themselves at some errors, such
// as a deadlock or a full disk, and then each further statement commits by itself. The same happens after
// a statement that commits implicitly, such as MySQL's DDL. XA PREPARE releases shared locks on MariaDB.
//
// # Concurrency
//
// Transactions of one leader check concurrently on PostgreSQL and InnoDB: Check takes a shared lock, and
// Claim an exclusive one. SQLite has one writer at a time in any case. There Check begins to write, as
// BEGIN IMMEDIATE does.
//
// # Waiting
//
// A claim waits for the locks of the old leader's transactions. A leader that begins them with the ctx of
// the lead function releases them when the term ends. A paused process does not. This ends its
// transactions, or the wait:
//
//	PostgreSQL  idle_in_transaction_session_timeout; lock_timeout; 40P01, 55P03
//	MariaDB     idle_transaction_timeout; innodb_lock_wait_timeout, 50 s by default; 1213, 1205
//	MySQL       wait_timeout, 8 h by default; innodb_lock_wait_timeout; 1213, 1205
//	SQLite      only the end of that process; the busy timeout; SQLITE_BUSY
//
// Set the first to about the session timeout of the election. If one of these codes ends a claim, or the
// outcome of a claim is unknown, claim again. ctx also limits the wait, except on SQLite, whose drivers
// check it only between tries.
//
// An old leader that begins one transaction after another keeps no claim waiting: later transactions wait
// behind the claim, on PostgreSQL because of an advisory lock. SQLite has no such queue.
//
// Check may fail with a serialization failure (40001 on PostgreSQL; 1020 on MariaDB) in place of
// [ErrDeposed]: at REPEATABLE READ and SERIALIZABLE, if a claim came after the transaction's snapshot. Run
// the whole transaction again, as after any such failure: if this leader was deposed, the new Check says
// so. After ClaimTx at SERIALIZABLE, a read of what the old leader wrote during the wait may fail with
// 1020 on MariaDB with innodb_snapshot_isolation.
//
// # Why it holds
//
// The idea is that of fencing tokens, or Chubby's sequencers: see docs/fencing.md. Claims and checks meet
// at the resource's row. The premises about the database:
//
//  1. A lock on a row is kept until its transaction has ended, and what the transaction wrote is visible from
//     then on. A shared and an exclusive lock are never held at the same time.
//  2. A statement that takes such a lock uses the row as last committed, not as in a snapshot, or fails.
//  3. Only claims change the row, and they only raise it.
//
// Let T be a transaction that was checked with token n, and C a claim with a higher token that has
// committed. T has held a lock on the row from its check to its end, and C from its write to its commit.
// By 1, one of them came after the other. If C's lock had come first, T's check would have read C's token
// or a higher one, by 2 and 3, and failed. So T's lock came first, and T ended before C locked the row,
// and before C committed.
//
// A transaction that begins after C has committed takes its snapshot after that, at any isolation level.
// By 1, it sees everything that such a T wrote. That is why Claim uses a transaction of its own: a
// snapshot of the claim's own transaction may be older than the wait for T. See [Fence.ClaimTx].
package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
)

// A Fence protects one resource, such as all that the leaders of one election write to a database. It is a
// row with the highest token that has claimed the resource. Its methods may be called from any goroutine.
type Fence struct {
	Dialect Dialect

	// Table is the table's name; "" means [DefaultTable]. It is a plain identifier, or two with a dot
	// between them, of which the first is the schema. Name the schema if not all connections have the same
	// one.
	Table string

	// Name is the resource's name: 1 to 255 bytes of UTF-8 without NUL, compared byte by byte. The
	// election's path is a good name. Never use one name for tokens of different elections.
	Name string
}

// Claim shuts out all leaders with a lower token, in a transaction of its own, which it commits. A new
// leader claims once, before it reads anything that it will change. It may claim again.
//
// It waits for open transactions that were checked with a lower token. [ErrDeposed] means that a higher
// token has claimed, and nothing was changed.
func (f Fence) Claim(ctx context.Context, db *sql.DB, token uint64) error {
	if _, _, err := f.prepare(token); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, f.Dialect.claimOptions())
	if err != nil {
		return fmt.Errorf("fence: %q: claim: %w", f.Name, err)
	}
	if err := f.ClaimTx(ctx, tx, token); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence: %q: claim: %w", f.Name, err)
	}
	return nil
}

// ClaimTx is Claim in the caller's transaction, which the caller continues and commits. The claim counts
// from then on. It holds an exclusive lock, so transactions of one leader that claim run one at a time.
//
// It must be the transaction's first statement. At PostgreSQL's REPEATABLE READ and SERIALIZABLE it
// returns [ErrIsolation]: later reads would be from before the wait for the old leader's transactions, and
// so would not include what they wrote.
//
// If it returns an error, it has rolled tx back.
func (f Fence) ClaimTx(ctx context.Context, tx *sql.Tx, token uint64) error {
	return f.within(tx, "claim", token, func(s statements, token int64) error {
		stored, err := f.Dialect.claim(ctx, tx, s, f.Name, token)
		if err != nil {
			return err
		}
		if stored > token {
			return deposed(token, stored)
		}
		return nil
	})
}

// Check ensures that tx commits only if no higher token has claimed until then. It holds a lock to the end
// of tx. [ErrDeposed] means that a higher token has claimed, and [ErrNotClaimed] that this token has not.
//
// If it returns any error, it has rolled tx back: then tx.Commit returns sql.ErrTxDone, even if the error
// was ignored.
func (f Fence) Check(ctx context.Context, tx *sql.Tx, token uint64) error {
	return f.within(tx, "check", token, func(s statements, token int64) error {
		if s.lock != "" {
			if _, err := tx.ExecContext(ctx, s.lock); err != nil {
				return err
			}
		}
		args := []any{f.Name}
		if s.gate != 0 {
			args = append(args, s.gate)
		}
		var stored int64
		err := tx.QueryRowContext(ctx, s.check, args...).Scan(&stored)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: token %d, and nobody has", ErrNotClaimed, token)
		case err != nil:
			return err
		case stored < token:
			return fmt.Errorf("%w: token %d, and the last to do so was %d", ErrNotClaimed, token, stored)
		case stored > token:
			return deposed(token, stored)
		}
		return nil
	})
}

func deposed(token, stored int64) error {
	return fmt.Errorf("%w: token %d, and %d has claimed", ErrDeposed, token, stored)
}

// within calls do for tx, and rolls tx back if that fails. Otherwise the guarantee would depend on the
// caller: one that ignores the error could commit what was not checked.
func (f Fence) within(tx *sql.Tx, what string, token uint64, do func(s statements, token int64) error) error {
	s, signed, err := f.prepare(token)
	if err == nil {
		if err = do(s, signed); err == nil {
			return nil
		}
		err = fmt.Errorf("fence: %q: %s: %w", f.Name, what, err)
	}
	// If the transaction or its connection has gone, there is nothing left to roll back.
	if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) && !errors.Is(back, driver.ErrBadConn) {
		err = errors.Join(err, back)
	}
	return err
}

// prepare makes all checks that need no database.
func (f Fence) prepare(token uint64) (statements, int64, error) {
	s, err := f.statements()
	if err != nil {
		return s, 0, err
	}
	if token == 0 || token > math.MaxInt64 {
		return s, 0, fmt.Errorf("fence: %q: %w: %d is not from 1 to 2^63-1", f.Name, ErrToken, token)
	}
	return s, int64(token), nil
}
