package conformance_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/kafka"
)

var epochSeed = flag.Uint64("epoch.seed", 0, "seed of TestEpochOnMemory; 0: a random one")

const (
	epochTTL   = 3 * time.Second
	epochTerms = 1000
	epochKey   = "/kafka/controller_epoch"
	seatKey    = "/kafka/controller"
	logDir     = "/log"
)

// Brokers lead a thousand terms among random faults. At every step the epoch is the
// number of its writes, so that each claim has raised it by exactly one; tokens are
// dense but where a fault may hide a claim from the one who made it; and no leader's
// write comes after the next one's claim.
func TestEpochOnMemory(t *testing.T) {
	seed := *epochSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	defer func() {
		if t.Failed() {
			t.Logf("to try it again: -epoch.seed=%d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) { newEpochTrial(t, seed).run() })
}

// An epochTrial is the service, the brokers, and what they are seen to do.
type epochTrial struct {
	t       *testing.T
	rnd     *rand.Rand
	svc     *memory.Service
	brokers []*broker
	running sync.WaitGroup
	terms   chan announced
	stopped context.Context
	stop    context.CancelFunc

	round atomic.Int64 // counts the announced terms

	mu      sync.Mutex
	moments *rand.Rand
	wrong   []string
	refused []string // keys of which a write said that it was not done
	done    []string // and that it was
}

// An announced term is one that Campaign has returned.
type announced struct {
	by   *broker
	term *elector.Term
}

type broker struct {
	*memory.Client
	x     *epochTrial
	e     elector.Elector
	leave chan struct{} // tells a leader to resign

	mu     sync.Mutex
	cancel context.CancelFunc // of the campaign
}

func newEpochTrial(t *testing.T, seed uint64) *epochTrial {
	x := &epochTrial{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), moments: rand.New(rand.NewPCG(seed, 2)),
		terms: make(chan announced, epochTerms),
	}
	x.svc = memory.New(memory.Options{Intercept: func(memory.Step) { x.look(); x.dawdle() }})
	x.stopped, x.stop = context.WithCancel(t.Context())
	t.Cleanup(func() { // after a failure; otherwise it is closed already
		x.stop()
		for _, b := range x.brokers {
			b.Resume()
			_ = b.e.Close(context.Background())
		}
		x.running.Wait()
	})
	for i := range 3 + x.rnd.IntN(3) {
		id := strconv.Itoa(i)
		b := &broker{Client: x.svc.Client(id), x: x, leave: make(chan struct{}, 1)}
		e, err := elector.New(elector.Config{Backend: b.Client, Strategy: kafka.New(), Election: "/kafka", ID: id, TTL: epochTTL})
		require.NoError(t, err)
		b.e = e
		x.brokers = append(x.brokers, b)
	}
	return x
}

// look compares the epoch with the number of its writes.
func (x *epochTrial) look() {
	if e := x.svc.Entry(epochKey); e.Exists() && string(e.Value) != strconv.FormatUint(e.Version, 10) {
		x.complain("epoch is %q after %d claims", e.Value, e.Version)
	}
}

// dawdle holds a step for a moment, so that they come in any order.
func (x *epochTrial) dawdle() {
	x.mu.Lock()
	wait := x.moments.Int64N(int64(10 * time.Millisecond))
	x.mu.Unlock()
	if wait%2 == 0 {
		time.Sleep(time.Duration(wait))
	}
}

func (x *epochTrial) complain(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
}

func (x *epochTrial) run() {
	for _, b := range x.brokers {
		x.running.Go(b.run)
	}
	var claims []backend.Entry
	last, hidden, dense := uint64(0), false, 0
	for range epochTerms {
		now := x.next()
		token := now.term.Token()
		require.Greater(x.t, token, last, "tokens rise")
		if !hidden {
			require.Equal(x.t, last+1, token, "no fault could hide a claim")
			dense++
		}
		for uint64(len(claims)) < token {
			claims = append(claims, backend.Entry{})
		}
		claims[token-1] = claimOf(now.term)
		last, hidden = token, x.disturb(now)
		x.sound()
	}
	x.stop()
	x.resume()
	x.running.Wait()
	x.resume() // a link may have been cut by the last write
	for _, b := range x.brokers {
		require.NoError(x.t, b.e.Close(context.Background()))
	}
	x.look()
	x.sound()
	require.Greater(x.t, dense, epochTerms/10, "few faults hide claims")
	x.t.Logf("%d of %d claims could not be hidden; %d writes done, %d refused", dense, epochTerms, len(x.done), len(x.refused))
	x.fenced(claims)
}

// claimOf returns the leader's entry.
func claimOf(t *elector.Term) (claim backend.Entry) {
	for _, g := range t.Guard().Conditions {
		if g.Entry.Session != "" {
			claim = g.Entry
		}
	}
	return claim
}

func (x *epochTrial) sound() {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	require.Empty(x.t, x.wrong)
}

// fenced checks that no write of a term came after a later claim.
func (x *epochTrial) fenced(claims []backend.Entry) {
	for _, e := range x.svc.Entries(logDir) {
		number, _, _ := strings.Cut(strings.TrimPrefix(e.Key, logDir+"/"), "-")
		token := must.Get(strconv.Atoi(number))(x.t)
		for _, claim := range claims[min(token, len(claims)):] {
			if claim.Exists() { // it was announced
				require.Less(x.t, e.Rev, claim.Rev, "%s came after the claim of a later term", e.Key)
				break
			}
		}
	}
	for _, key := range x.refused {
		require.False(x.t, x.svc.Entry(key).Exists(), "%s was refused, and is there", key)
	}
	for _, key := range x.done {
		require.True(x.t, x.svc.Entry(key).Exists(), "%s was done, and is not there", key)
	}
}

// next returns the next term that is announced. All links are up again in time.
func (x *epochTrial) next() announced {
	for range 100 {
		select {
		case now := <-x.terms:
			x.round.Add(1)
			return now
		case <-time.After(2 * epochTTL):
			x.resume()
			for _, b := range x.brokers {
				b.resign() // one whose link was back sooner than meant still leads
			}
		}
	}
	x.sound()
	require.Fail(x.t, "nobody leads", x.svc.Dump())
	return announced{}
}

func (x *epochTrial) resume() {
	for _, b := range x.brokers {
		b.Resume()
		b.DelayWakeups(0)
	}
}

func (x *epochTrial) any() *broker { return x.brokers[x.rnd.IntN(len(x.brokers))] }

// nextClaim picks a claim before the next term is announced.
func (x *epochTrial) nextClaim() memory.Match {
	round, claim := x.round.Load(), memory.Kind(backend.OpCreateEphemeral)
	return func(ops []backend.Op) bool { return x.round.Load() == round && claim(ops) }
}

// logs picks a leader's write.
func logs(ops []backend.Op) bool { return len(ops) > 0 && strings.HasPrefix(ops[0].Key, logDir) }

// disturb draws what goes wrong in a term and how it ends. hides says that a claim
// after it may be lost on the one who made it, or may go unannounced.
func (x *epochTrial) disturb(now announced) (hides bool) {
	for range x.rnd.IntN(4) {
		b := x.any()
		switch x.rnd.IntN(8) {
		case 0:
			b.LoseReply(memory.Kind(backend.OpCreateEphemeral))
		case 1:
			b.LoseRequest(memory.Kind(backend.OpCreateEphemeral))
		case 2:
			b.CutReply(x.nextClaim())
			hides = true
		case 3:
			b.LoseReply(logs)
		case 4:
			b.CutReply(logs)
		case 5:
			b.DelayWakeups(time.Duration(x.rnd.Int64N(int64(epochTTL) / 2)))
		case 6:
			b.Suspend()
			time.AfterFunc(time.Duration(x.rnd.Int64N(int64(2*epochTTL))), b.Resume)
		case 7:
			b.Expire()
		}
	}
	if x.rnd.IntN(3) == 0 {
		time.Sleep(time.Duration(x.rnd.Int64N(int64(epochTTL))))
	}
	// Otherwise others may have been about to claim the seat.
	hides = hides || !now.term.Valid()
	switch x.rnd.IntN(5) {
	case 0:
		x.svc.Delete(seatKey)
	case 1:
		now.by.Expire()
	case 2:
		now.by.Suspend()
		time.AfterFunc(2*epochTTL, now.by.Resume)
	default:
		now.by.resign()
	}
	switch x.rnd.IntN(8) { // beside the next claim
	case 0:
		x.any().withdraw()
		hides = true
	case 1:
		x.any().Expire()
		hides = true
	case 2:
		x.svc.Delete(seatKey)
		hides = true
	}
	return hides
}

// run campaigns, leads and leaves until the trial is over.
func (b *broker) run() {
	for b.x.stopped.Err() == nil {
		ctx, cancel := context.WithCancel(b.x.stopped)
		b.mu.Lock()
		b.cancel = cancel
		b.mu.Unlock()
		term, err := b.e.Campaign(ctx)
		cancel()
		switch {
		case err == nil:
			b.lead(term)
		case !errors.Is(err, context.Canceled):
			b.x.complain("Campaign: %v", err)
			return
		}
	}
}

func (b *broker) withdraw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *broker) resign() {
	select {
	case b.leave <- struct{}{}:
	default:
	}
}

func (b *broker) lead(term *elector.Term) {
	select {
	case <-b.leave: // which was meant for an earlier term
	default:
	}
	b.x.terms <- announced{b, term}
	var writing sync.WaitGroup
	for i := range 3 {
		writing.Go(func() { b.write(term, i) })
	}
	select {
	case <-term.Context().Done():
	case <-b.leave:
	case <-b.x.stopped.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), epochTTL)
	defer cancel()
	_ = term.Resign(ctx) // out of touch it is not confirmed
	writing.Wait()
}

// write commits until it has done enough or the term is over.
func (b *broker) write(term *elector.Term, writer int) {
	for i := range 5 {
		key := fmt.Sprintf("%s/%d-%d-%d", logDir, term.Token(), writer, i)
		_, err := term.Commit(context.Background(), elector.Create(key, nil))
		b.x.mu.Lock()
		switch {
		case err == nil:
			b.x.done = append(b.x.done, key)
		case errors.Is(err, elector.ErrIndeterminate):
		case errors.Is(err, elector.ErrDeposed):
			b.x.refused = append(b.x.refused, key)
		default:
			b.x.wrong = append(b.x.wrong, fmt.Sprintf("commit %s: %v", key, err))
		}
		b.x.mu.Unlock()
		if err != nil {
			return
		}
	}
}
