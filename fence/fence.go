// Package fence keeps the late transactions of an old leader out of a SQL database. It works by
// database/sql on PostgreSQL, on InnoDB of MariaDB and MySQL, and on SQLite.
//
// # What it guarantees
//
// Once a leader has claimed with its token, no transaction that was checked with a lower one commits
// any more. One that is under way commits before the claim, which waits for it, or fails. So what a
// leader reads after its claim has all that earlier leaders have committed, and nothing of theirs
// comes after.
//
// # What it does not
//
//   - Writes of transactions without a check, or in another database, are not fenced.
//   - Where one server takes over from another, and lacks transactions that were committed, the
//     highest token may be lacking, too. The same holds for several servers that all take writes, as
//     those of Galera: each has row locks of its own.
//   - A claim waits for the old leader's open transactions, however long a paused process keeps them
//     open. See Waiting.
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
// [Fence.CreateTable] makes the table, and [Schema] is its statement for your migrations. Whoever
// claims and checks has to have the rights to SELECT, INSERT and UPDATE in it. Nobody else changes it.
//
// # Where the check stands
//
// Begin the transaction after Claim has returned. Where in it Check stands makes no difference to the
// guarantee. As the first statement it finds out first. As the last it holds the lock for the shortest
// time, which matters on SQLite, where the lock is the only one for writers.
//
// Do not check after a SAVEPOINT that you may go back to: PostgreSQL gives the lock back then.
// After an error of any statement, roll back. MySQL and SQLite end a transaction by themselves at some
// errors, such as a deadlock or a full disk, and each statement that follows commits by itself.
// So does what comes after a statement that commits implicitly, as MySQL's DDL does. XA PREPARE
// gives shared locks back on MariaDB.
//
// # Side by side
//
// Transactions of one leader check side by side on PostgreSQL and InnoDB: Check takes a shared lock,
// and Claim an exclusive one. SQLite has one writer at a time in any case. There Check begins to write,
// as BEGIN IMMEDIATE does.
//
// # Waiting
//
// A claim waits for the locks of the old leader's transactions. Who begins them with the ctx of the
// lead function gives them back when the term ends. A process that is paused does not. What ends its
// transactions, or the wait:
//
//	PostgreSQL  idle_in_transaction_session_timeout; lock_timeout; 40P01, 55P03
//	MariaDB     idle_transaction_timeout; innodb_lock_wait_timeout, 50 s by default; 1213, 1205
//	MySQL       wait_timeout, 8 h by default; innodb_lock_wait_timeout; 1213, 1205
//	SQLite      nothing but the end of that process; the busy timeout; SQLITE_BUSY
//
// Set the first to about the session timeout of the election. Where one of these codes ends a claim,
// claim again. So does a claim whose outcome is unknown. ctx bounds the wait as well, except on SQLite,
// whose drivers look at it only between the tries.
//
// An old leader that begins one transaction after the other keeps no claim waiting: those that come
// later wait behind the claim, on PostgreSQL by an advisory lock. SQLite has no such line.
//
// Check may fail with a serialization failure (40001 on PostgreSQL; 1020 on MariaDB) where it would
// otherwise have to return [ErrDeposed]: at REPEATABLE READ and SERIALIZABLE, where a claim came after
// the transaction's snapshot. Run the whole transaction again, as after any such failure: if this
// leader was deposed, the new one's Check says so. After ClaimTx at SERIALIZABLE, a read of what the old
// leader wrote during the wait may fail with 1020 on MariaDB with innodb_snapshot_isolation.
//
// # Why it holds
//
// The idea is that of fencing tokens, Chubby's sequencers: docs/fencing.md. The resource's row is
// where the two meet. The premises, of the database:
//
//  1. A lock on a row is kept until its transaction has ended, and what it wrote is seen from then on.
//     A shared and an exclusive one are not held at once.
//  2. A statement that takes such a lock goes by the row as last committed, and not by a snapshot, or
//     fails.
//  3. The row is changed only by claims, and they only raise it.
//
// Let T be a transaction that was checked with token n, and C a claim with a higher one that has
// committed. T has held a lock on the row from its check to its end, and C from its write to its
// commit. By 1 one of them came after the other. Had C's lock come first, T's check would have read
// C's token or a higher one, by 2 and 3, and failed. So T's lock came first, and T ended before C
// locked the row, and before C committed.
//
// A transaction that begins after C has committed takes its snapshot after that, at whatever isolation
// level. By 1 it sees all that such T wrote. That is why Claim has a transaction of its own: a snapshot
// of the claim's own transaction may be older than the wait for T. See [Fence.ClaimTx].
package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
)

// A Fence is what stands around one resource, such as all that the leaders of one election write to a
// database: a row with the highest token that has claimed it. Its methods may be called from any
// goroutine.
type Fence struct {
	Dialect Dialect

	// Table is the table's name, [DefaultTable] if it is "". It is a plain identifier or two with a
	// dot between them, the first of which is the schema. Name the schema if not all connections
	// have the same one.
	Table string

	// Name is the resource's: 1 to 255 bytes of UTF-8 without NUL, compared byte by byte. The
	// election's path is a good one. Tokens of different elections must not meet at one name.
	Name string
}

// Claim shuts out all leaders with a lower token, in a transaction of its own, which it commits. A new
// leader claims once, before it reads anything that it will change. It may claim again.
//
// It waits for the transactions under way that were checked with a lower token. [ErrDeposed]: a higher
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

// ClaimTx is Claim in a transaction of the caller's, which goes on with it, and commits it. The claim
// counts from then on. It holds an exclusive lock, so that the transactions of one leader that claim
// run one at a time.
//
// It has to be the transaction's first statement. At PostgreSQL's REPEATABLE READ and SERIALIZABLE it
// is refused with [ErrIsolation]: what it reads afterwards would be from before the wait for the
// old leader's transactions, and so not have what they wrote.
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

// Check makes sure that tx commits only if no higher token has claimed until then. It holds a lock to
// the end of tx. [ErrDeposed]: a higher token has claimed. [ErrNotClaimed]: this one has not.
//
// If it returns an error, whatever it is, it has rolled tx back: tx.Commit returns sql.ErrTxDone then,
// even if the error is not looked at.
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

// within does what is to be done in tx, and rolls it back if that fails. Otherwise the guarantee would
// rest on callers that look at the error: at one that goes on, and commits what was not checked.
func (f Fence) within(tx *sql.Tx, what string, token uint64, do func(s statements, token int64) error) error {
	s, signed, err := f.prepare(token)
	if err == nil {
		if err = do(s, signed); err == nil {
			return nil
		}
		err = fmt.Errorf("fence: %q: %s: %w", f.Name, what, err)
	}
	// Without its transaction, or its connection, there is nothing left to roll back.
	if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) && !errors.Is(back, driver.ErrBadConn) {
		err = errors.Join(err, back)
	}
	return err
}

// prepare checks all that needs no database.
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
