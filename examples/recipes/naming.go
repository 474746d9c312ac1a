package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// Naming, in three kinds. None needs a UUID: the service has an order that all agree on.
//
// Source: ZooKeeper's "Name Service" by sequential nodes; Curator's DistributedAtomicLong for the count.
//
//	          unique                   rising                     dense    costs
//	number    for ever                 in the order of the calls  no       two writes
//	count     for ever                 in the order of the calls  mostly   a read and a write, per block
//	ordinal   among the living         no, the lowest free one             a write per name that is taken
//
// Trap: the usual recipe uses the number that ZooKeeper appends to a sequential node's name. The directory
// keeps that number: it begins at 0 when the directory is created again, and runs out after 2^31. The numbers
// here are creation revisions, which rise over all entries of the service.
//
// All survive a restart of the servers with their data. If the data is lost, or a backup is restored, the
// service repeats itself: number and count begin lower, and return again what they returned since the backup.
// Numbers of two services are not comparable. On memory the service is lost with the process.

// Number returns a number that no other call returns, higher than all that were returned before the call. dir
// must not be used for anything else.
func Number(ctx context.Context, s *backend.Session, dir string) (uint64, error) {
	e, err := backend.Entry{}, backend.ErrExists
	for errors.Is(err, backend.ErrExists) { // our own entry whose reply was lost: nobody knows its number
		e, err = one(add(ctx, s, nil, backend.CreateEphemeral(dir+"/"+rand.Text(), nil)))
	}
	if err != nil {
		return 0, err
	}
	_ = withdraw(ctx, s, e) // the number is valid; the session continues to remove the entry
	return e.Rev, nil
}

// A Serial is a number of a count. Serials are ordered by their eras first.
type Serial struct {
	Era   uint64 // creation revision of the count's entry: after a deletion, another era begins
	First uint64 // from 1
}

func (n Serial) String() string { return fmt.Sprintf("%d-%d", n.Era, n.First) }

// counted is the value of a count's entry.
type counted struct {
	Last uint64
	By   string // random, to distinguish a lost reply from another's write
}

// Count returns the first of n consecutive numbers. If a reply is lost for good, or the caller crashes, the
// numbers are skipped. They are never returned twice.
func Count(ctx context.Context, s *backend.Session, key string, n uint64) (Serial, error) {
	for {
		now, err := read(ctx, s, key)
		if err != nil {
			return Serial{}, err
		}
		c, _ := decode[counted](now)
		if now.Exists() && c.Last == 0 {
			return Serial{}, fmt.Errorf("%s is no count: %.40q", key, now.Value) // a stranger's
		}
		if c.Last+n <= c.Last {
			return Serial{}, fmt.Errorf("%s: %d numbers after %d", key, n, c.Last)
		}
		made, err := write(ctx, s, now, encode(counted{Last: c.Last + n, By: rand.Text()}))
		switch {
		case err == nil:
			return Serial{Era: made.Rev, First: c.Last + 1}, nil
		case !refused(err) && !again(ctx, err):
			return Serial{}, err
		}
	}
}

// Ordinal holds the lowest number from 0 that nobody holds, for names such as worker-0, worker-1, … After a
// release, or when the session is lost, it is another's: worker-1 today is not worker-1 of yesterday. The
// token tells them apart.
func Ordinal(ctx context.Context, s *backend.Session, dir, name string) (int, *Hold, error) {
	for i := 0; ; i++ {
		e, err := one(add(ctx, s, nil, backend.CreateEphemeral(fmt.Sprintf("%s/%d", dir, i), []byte(name))))
		switch {
		case err == nil:
			return i, hold(ctx, s, e), nil
		case !errors.Is(err, backend.ErrExists):
			return 0, nil, err
		}
	}
}
