package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/fence"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

const (
	stressFor = time.Second
	atATime   = 2 // transactions of a leader
)

// If leaders follow each other, and learn only from the database that they are deposed, the rows that a
// leader counts right after its claim are all that earlier leaders ever write.
func TestStress(t *testing.T) {
	eachLevel(t, func(t *testing.T, d *database, level sql.IsolationLevel) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		s := &stress{database: d, level: level, seen: make(map[uint64]int), committed: make(map[uint64]int)}
		ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
		defer cancel()
		var leaders sync.WaitGroup
		token := uint64(0)
		for begun := time.Now(); ctx.Err() == nil && (time.Since(begun) < stressFor || s.wrote() < 5); {
			token += 1 + random.Uint64N(3)
			next, wrote := token, make(chan struct{})
			leaders.Go(func() { assert.NoError(t, s.lead(ctx, next, wrote)) })
			if random.IntN(3) > 0 { // otherwise the next one comes at once
				<-wrote
				time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			}
		}
		// A claim that no other follows ends them all.
		require.NoError(t, s.again(ctx, func() error { return d.fence.Claim(ctx, d.DB, token+1) }))
		leaders.Wait()

		for token, seen := range s.seen {
			n := must.Get(before(t.Context(), d, token))(t)
			assert.Equal(t, n, seen, "written below %d: in the end, and right after its claim", token)
		}
		total := 0
		for token, n := range s.committed {
			at := must.Get(before(t.Context(), d, token))(t)
			after := must.Get(before(t.Context(), d, token+1))(t)
			assert.Equal(t, n, after-at, "transactions of %d", token)
			total += n
		}
		t.Logf("%d leaders, %d claims, %d transactions, %d deposed, %d tried again; a claim took %v at most",
			len(s.seen)+s.late, len(s.seen), total, s.deposed.Load(), s.transient.Load(), s.longest)
		require.GreaterOrEqual(t, s.wrote(), 5, "leaders that wrote anything")
		require.NotZero(t, s.deposed.Load())
	})
}

type stress struct {
	*database
	level sql.IsolationLevel

	deposed, transient atomic.Int64

	mu        sync.Mutex
	seen      map[uint64]int // by token: rows with lower tokens, after its claim
	committed map[uint64]int
	late      int // leaders whose claim came too late
	longest   time.Duration
}

// wrote returns how many leaders have written anything.
func (s *stress) wrote() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.committed)
}

// lead is a term. It closes wrote when it has written, or will not write.
func (s *stress) lead(ctx context.Context, token uint64, wrote chan<- struct{}) error {
	tell := sync.OnceFunc(func() { close(wrote) })
	defer tell()
	begun := time.Now()
	err := s.again(ctx, func() error { return s.fence.Claim(ctx, s.DB, token) })
	if errors.Is(err, fence.ErrDeposed) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late++
		return nil
	}
	if err != nil {
		return err
	}
	took := time.Since(begun)
	n, err := before(ctx, s, token)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.seen[token], s.longest = n, max(s.longest, took)
	s.mu.Unlock()

	var work sync.WaitGroup
	errs := make([]error, atATime)
	for i := range atATime {
		work.Go(func() {
			for errs[i] == nil {
				if errs[i] = s.again(ctx, func() error { return s.transaction(ctx, token) }); errs[i] == nil {
					tell()
				}
			}
			if errors.Is(errs[i], fence.ErrDeposed) {
				s.deposed.Add(1)
				errs[i] = nil
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// again repeats do until the database does not ask for a repetition.
func (s *stress) again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !s.database.kind.transient(err) || ctx.Err() != nil {
			return err
		}
		s.transient.Add(1)
	}
}

// transaction checks first or last, and takes some time in between.
func (s *stress) transaction(ctx context.Context, token uint64) error {
	tx, err := s.BeginTx(ctx, &sql.TxOptions{Isolation: s.level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	steps := []func() error{
		func() error { return s.fence.Check(ctx, tx, token) },
		func() error { return write(ctx, tx, token) },
	}
	if rand.IntN(2) == 0 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range append(steps, tx.Commit) {
		if err := step(); err != nil {
			return err
		}
		time.Sleep(rand.N(2 * time.Millisecond))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed[token]++
	return nil
}
