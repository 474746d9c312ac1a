// Package ranked is the strategy in which the best candidate leads: each has a rank, a few numbers that the
// application gives it, such as the position of its log.
//
// The rank decides who tries, and never who may write: the candidate that creates the one entry, the seat,
// leads, as in strategy/unfair. A leader change wakes the best of the waiting candidates to lead, and tells
// those that waited for it: one with equal ranks, as in strategy/fair, and about ln N of N with random ranks.
// If ranks rise in turns, it wakes all that have been the best at some time.
//
// Source: the rule is that of ZooKeeper's FastLeaderElection (epoch, zxid, server id; a quorum), of
// Elasticsearch's Zen discovery, Kubernetes' coordinated leader election and Patroni. They count votes, or
// read what all have published. Here each candidate looks for a better one, and the service's order of writes
// replaces the votes.
package ranked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the ranked strategy. Its zero value is ready: all ranks are equal, and the first to come leads
// first. Give the candidates of an election the same settings, except for Rank.
type Strategy struct {
	entries.Seat
	// Rank is this candidate's rank. Nil is the rank without numbers, which equals that of zeros.
	Rank *Rank
	// ByID compares candidates of equal rank by their IDs, the lesser one first, and those of equal ID by
	// arrival. Without it, arrival alone decides.
	ByID bool
	// Quorum is how many candidates that may lead have to stand before one of them leads, usually a majority
	// of all: so the best of many leads, and not the best of the first to come. A leader does not need it any
	// more. Two never lead without it, either.
	Quorum int
	// Preempt makes the best candidate ask a leader of lower rank to go (see elector.Term.Asked), unless the leader
	// is the designated candidate. Without it, the best candidate waits until the leader goes.
	Preempt bool
	// HoldOff is how long the best candidate must have been better than the leader before it asks, so that
	// leadership does not swing with ranks that do.
	HoldOff time.Duration
}

var (
	_ strategy.Transferrer = Strategy{}
	_ strategy.Designator  = Strategy{}
	_ strategy.UnfitStands = Strategy{}
)

// Name is "ranked", and "ranked-by-id" with ByID: candidates that compare in different ways would wait for
// each other.
func (s Strategy) Name() string {
	if s.ByID {
		return "ranked-by-id"
	}
	return "ranked"
}

// HeedsDesignation says that an operator may name a candidate. That one is then better than all others,
// except the heir of a transfer.
func (Strategy) HeedsDesignation() {}

// UnfitStands says that an unfit candidate still stands, with a rank below zero.
func (Strategy) UnfitStands() {}

// Campaign stands with the candidate's rank until it is the best, and the seat is vacant.
//
//  1. Enqueue an entry with my rank, me.
//  2. Look whether the seat is taken. List the candidates, and read those that I do not know, until
//     one is better than I am. An entry's rank never changes, so I read each once.
//  3. One is better: wait until its entry or mine goes. Back to 2.
//  4. None is, and the seat is taken: wait until it is vacant. Back to 2.
//  5. None is, the seat was vacant when I listed, and a quorum stands: in one step, create the seat and
//     delete me, if the election's record is as I know it. Done: I lead. Refused: back to 2.
//
// If my entry is gone, back to 1. When my rank changes, I replace my entry, in one step; back to 2.
//
// A candidate that waits for a better one need not know the best, nor the newcomers: the next best is among
// those that wait for the best, as only the best is better. They wake when the best takes the seat, and find
// out which of them is next while it leads. The best knows all candidates at the moment of a listing made
// after the vacancy.
//
// The record has the candidate that an operator designated, and the heir that a leader named. Nobody can take
// the seat without knowing the current record. A candidate that waits for one that is better by the record
// alone waits for the record, too, and tells that candidate: the next version of its entry makes it look.
func (s Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	r := &race{Strategy: s, c: c}
	for {
		seat, err := r.run(ctx)
		if err == nil {
			return r.claim(seat), nil
		}
		if errors.Is(err, backend.ErrNoEntry) { // somebody has deleted my entry
			_ = c.Session.Discard(ctx, r.me.entry) // tells its session, too: a service that is restored may bring the entry back
			r.me = rival{}
			continue
		}
		if r.me.exists() {
			err = errors.Join(err, c.Withdraw(ctx, r.me.entry))
		}
		return strategy.Claim{}, err
	}
}

// A race is one candidate's campaign.
type race struct {
	Strategy
	c     *strategy.Candidacy
	me    rival
	known map[string]rival // by key
	// noticed are the seat and the record as returned by a wait for them. It is nil after a look at them.
	noticed []backend.Entry
	ahead   ahead // of the leader
	calm    calm
}

// run does steps 2 to 5, and replaces me when the rank changes. The error is ErrNoEntry if me is gone.
func (r *race) run(ctx context.Context) (backend.Entry, error) {
	for {
		if err := r.stand(ctx); err != nil {
			return backend.Entry{}, err
		}
		now, err := r.look(ctx)
		if err != nil {
			return backend.Entry{}, err
		}
		if !r.mayTake(now) {
			if err := r.wait(ctx, now); err != nil {
				return backend.Entry{}, err
			}
			continue
		}
		seat, err := r.take(ctx, now)
		if err == nil || !overtaken(err) {
			return seat, err
		}
	}
}

// rank returns the candidate's effective rank.
func (r *race) rank() []int64 {
	if _, unfit := r.c.Fit(); unfit != nil {
		return []int64{-1}
	}
	return r.Rank.Numbers()
}

// stand enqueues an entry with the candidate's rank. It replaces an entry with another rank.
func (r *race) stand(ctx context.Context) (err error) {
	rank := r.rank()
	if r.me.exists() && r.calm.keeps(r.me.rank, rank) {
		return nil
	}
	completed := r.c.Begin(strategy.StageOffer)
	defer func() { completed(err) }()
	ops := []backend.Op{backend.Enqueue(r.c.Dir, layout.Candidate{ID: r.c.ID, Value: r.c.Value, Rank: rank, Since: r.me.since}.Encode())}
	if r.me.exists() {
		ops = append(ops, backend.Delete(r.me.entry))
	}
	made, err := r.c.Session.Commit(ctx, nil, ops...)
	if err != nil {
		return err
	}
	r.me = rivalOf(made[0])
	r.calm.changed()
	return nil
}

// calm makes a candidate keep its rank for a while after it has seen the seat vacant and as many candidates
// as the quorum. Otherwise candidates whose ranks change all the time might never agree on the best: to know
// that it is the best takes a read for each change. Each change makes the next calm longer. A candidate that
// ceases or begins to be eligible changes its rank at once.
type calm struct {
	until time.Time
	last  time.Duration
}

const shortestCalm, longestCalm = 2 * time.Second, 32 * time.Second

// sees begins a calm at a vacancy, and ends it afterwards.
func (c *calm) sees(vacant bool) {
	switch {
	case !vacant:
		*c = calm{}
	case c.last == 0:
		*c = calm{time.Now().Add(shortestCalm), shortestCalm}
	}
}

// changed begins the next calm.
func (c *calm) changed() {
	if c.last > 0 {
		c.last = min(2*c.last, longestCalm)
		c.until = time.Now().Add(c.last)
	}
}

// keeps reports whether a candidate that stands with one rank may keep it for now, though it has another.
func (c calm) keeps(stands, rank []int64) bool {
	return slices.Equal(stands, rank) || eligible(stands) && eligible(rank) && time.Now().Before(c.until)
}

// A view is what a candidate knows after a look.
type view struct {
	seat, record backend.Entry
	listing      backend.Listing
	choice       choice
	// better is a rival that is better than me, if there is one. byChoice is whether it is better by the
	// choice alone.
	better   rival
	byChoice bool
	// standing is how many may lead. It is right if none is better.
	standing int
	// outdated is whether a listed candidate has gone since: it may stand with another rank.
	outdated bool
}

// look does step 2.
func (r *race) look(ctx context.Context) (v *view, err error) {
	completed := r.c.Begin(strategy.StageDetermine)
	defer func() { completed(err) }()
	if v, err = r.lookAtSeat(ctx); err != nil {
		return nil, err
	}
	if v.listing, err = r.c.Session.List(ctx, r.c.Dir); err != nil {
		return nil, err
	}
	r.calm.sees(!v.seat.Exists() && len(v.listing.Keys) >= r.Quorum)
	own := slices.Index(v.listing.Keys, r.me.entry.Key)
	if own < 0 {
		return nil, fmt.Errorf("%w: %s is not listed", backend.ErrNoEntry, r.me.entry.Key)
	}
	r.forget(v.listing)
	if eligible(r.me.rank) { // else it waits for nobody
		err = r.compare(ctx, v, own)
	}
	return v, err
}

// lookAtSeat begins a view with the seat and the record. It uses the result of a wait, if there is one.
func (r *race) lookAtSeat(ctx context.Context) (v *view, err error) {
	v = new(view)
	if told := r.noticed; told != nil {
		r.noticed = nil
		v.seat, v.record = told[0], told[1]
		v.seat.Key = entries.SeatKey(r.c.Dir) // the result has no key if there is no seat
	} else if v.seat, err = entries.Get(ctx, r.c.Session, entries.SeatKey(r.c.Dir)); err != nil {
		return nil, err
	} else if v.record, err = entries.Get(ctx, r.c.Session, backend.Parent(r.c.Dir)); err != nil {
		return nil, err
	}
	if v.seat.Exists() && v.seat.Session == "" {
		return nil, entries.PersistentError(v.seat)
	}
	v.choice, err = decodeChoice(v.record, r.c.Dir)
	return v, err
}

// forget drops the rivals that are gone: a key never comes back.
func (r *race) forget(listing backend.Listing) {
	known := make(map[string]rival, len(r.known))
	for _, key := range listing.Keys {
		if other, is := r.known[key]; is {
			known[key] = other
		}
	}
	r.known = known
}

// compare looks for a better one: first among the known ones, then from me to the older ones, and then from
// the youngest back to me.
func (r *race) compare(ctx context.Context, v *view, own int) error {
	for _, other := range r.known {
		r.consider(v, other)
	}
	keys := v.listing.Keys
	for n := 1; n < len(keys) && (!v.better.exists() || v.byChoice); n++ {
		key := keys[(own-n+len(keys))%len(keys)]
		if _, is := r.known[key]; is {
			continue
		}
		e, err := entries.Get(ctx, r.c.Session, key)
		if err != nil {
			return err
		}
		if !e.Exists() {
			v.outdated = true
			continue
		}
		r.known[key] = rivalOf(e)
		r.consider(v, r.known[key])
	}
	v.standing = 1
	for _, other := range r.known {
		if other.stands() {
			v.standing++
		}
	}
	return nil
}

// consider keeps a rival if it is better than me. It prefers one that is better by its rank to one that is
// better by the choice alone. Of the first kind it keeps the closest. Of the second it keeps the best: when
// told of the choice, that one waits for nobody, while another might wait for it, and it for me.
func (r *race) consider(v *view, other rival) {
	if !other.stands() || !r.before(v.choice, other, r.me) {
		return
	}
	byChoice := !r.before(choice{}, other, r.me)
	switch {
	case !v.better.exists(), v.byChoice && !byChoice:
	case byChoice && !v.byChoice:
		return
	case byChoice && r.before(v.choice, v.better, other), !byChoice && r.before(choice{}, other, v.better):
		return
	}
	v.better, v.byChoice = other, byChoice
}

// mayTake reports whether the candidate may do step 5.
func (r *race) mayTake(v *view) bool {
	return !v.seat.Exists() && eligible(r.me.rank) && !v.better.exists() && v.standing >= r.Quorum && !v.outdated
}

// take replaces me by the seat. The heir has had its turn then.
func (r *race) take(ctx context.Context, v *view) (backend.Entry, error) {
	var unchanged []backend.Condition
	ops := []backend.Op{backend.CreateEphemeral(v.seat.Key, r.encode(r.c.Value)), backend.Delete(r.me.entry)}
	if v.choice.heir == nil {
		unchanged = append(unchanged, backend.IfUnchanged(v.record))
	} else {
		ops = append(ops, backend.CompareAndSet(v.record.Key, v.choice.withoutHeir().Encode(), v.record.Version))
	}
	made, err := r.c.Session.Commit(ctx, unchanged, ops...)
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// overtaken reports whether step 5 was refused because the seat is taken or the record has changed.
func overtaken(err error) bool {
	return errors.Is(err, backend.ErrExists) || errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict)
}

// wait blocks until it is time to look again.
func (r *race) wait(ctx context.Context, v *view) (err error) {
	completed := r.c.Begin(strategy.StageReady)
	defer func() { completed(err) }()
	r.ahead.sees(v.seat, v.outranks(r.me))
	until, cancel := r.untilNot(ctx, r.me.rank)
	defer cancel()
	switch {
	case !eligible(r.me.rank):
		_, err = r.await(until)
	case v.byChoice:
		if err = r.tell(ctx, v); err == nil {
			_, err = r.await(until, v.better.entry, v.record)
		}
	case v.better.exists():
		_, err = r.await(until, v.better.entry)
	case v.seat.Exists():
		r.c.Sees(entries.Leader(v.seat), 2)
		err = r.challenge(ctx, until, v)
	default:
		err = r.awaitQuorum(until, v)
	}
	if err != nil && ctx.Err() == nil && until.Err() != nil {
		return nil // the rank has changed
	}
	return err
}

// untilNot returns a context that ends when the candidate must stand with a rank other than this.
func (r *race) untilNot(ctx context.Context, rank []int64) (context.Context, context.CancelFunc) {
	until, cancel := context.WithCancel(ctx)
	now := r.calm
	check := func() {
		if !now.keeps(rank, r.rank()) {
			cancel()
		}
	}
	stop := r.Rank.listen(check)
	check() // it may have changed meanwhile
	if left := time.Until(now.until); left > 0 {
		calmed := time.AfterFunc(left, check)
		context.AfterFunc(until, func() { calmed.Stop() })
	}
	if changed, _ := r.c.Fit(); changed != nil {
		go func() {
			select {
			case <-changed:
				cancel()
			case <-until.Done():
			}
		}()
	}
	return until, func() { stop(); cancel() }
}

// await blocks until me or one of the others has changed, and notes the new state of me and of a rival. It
// returns the others.
func (r *race) await(ctx context.Context, others ...backend.Entry) (now []backend.Entry, err error) {
	if now, err = r.c.Session.Await(ctx, append([]backend.Entry{r.me.entry}, others...)...); err != nil {
		return nil, err
	}
	mine, now := now[0], now[1:]
	if !mine.Exists() {
		return nil, fmt.Errorf("%w: %s is gone", backend.ErrNoEntry, r.me.entry.Key)
	}
	r.me.entry, r.me.rank = mine, rivalOf(mine).rank // in case somebody else has written another rank
	for _, e := range now {
		if _, is := r.known[e.Key]; is && e.Exists() {
			r.known[e.Key] = rivalOf(e)
		}
	}
	return now, nil
}

// awaitSeat is await for the seat and the record, and notes their new state.
func (r *race) awaitSeat(ctx context.Context, v *view) error {
	now, err := r.await(ctx, v.seat, v.record)
	r.noticed = now
	return err
}

// awaitQuorum blocks until the candidates differ from the listing, or the seat is taken. It reads the seat
// first: a candidate that took it after my look and before the listing is not listed any more.
func (r *race) awaitQuorum(ctx context.Context, v *view) error {
	seat, err := entries.Get(ctx, r.c.Session, v.seat.Key)
	if err == nil && !seat.Exists() {
		_, err = r.c.Session.AwaitList(ctx, v.listing)
	}
	return err
}

// tell makes the one that is better by the choice look again, unless it has been told of this record.
func (r *race) tell(ctx context.Context, v *view) error {
	if v.better.told == v.record.Version {
		return nil
	}
	_, err := r.c.Session.Commit(ctx, []backend.Condition{backend.IfUnchanged(v.better.entry)},
		backend.Update(v.better.entry, v.better.tell(v.record.Version)))
	if errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrNoEntry) {
		return nil // it has changed: the wait finds out
	}
	return err
}

// ahead is the time since when every look of a candidate has found it better than the leader of a term.
// Others may be better still: they might overtake each other all the time.
type ahead struct {
	seat  uint64 // the creation revision of the leader's entry
	since time.Time
}

func (a *ahead) sees(seat backend.Entry, outranked bool) {
	switch {
	case !outranked:
		*a = ahead{}
	case a.seat != seat.Rev:
		*a = ahead{seat.Rev, time.Now()}
	}
}

// outranks reports whether a candidate is better than the leader. An heir is not: the leader may lead as long
// as it likes.
func (v *view) outranks(me rival) bool {
	return v.seat.Exists() && eligible(me.rank) && v.choice.withoutHeir().prefers(me, rivalOf(v.seat))
}

// challenge waits for the seat, and asks the leader to go when it is time.
func (r *race) challenge(ctx, until context.Context, v *view) error {
	_, asked := layout.Asked(v.seat.Value)
	if asked || !r.Preempt || !v.outranks(r.me) {
		return r.awaitSeat(until, v)
	}
	ask := r.ahead.since.Add(r.HoldOff)
	quorate := v.standing+1 >= r.Quorum // the leader will stand again
	if !quorate {
		ask = time.Now().Add(lookAgain)
	}
	due, cancel := context.WithDeadline(until, ask)
	defer cancel()
	err := r.awaitSeat(due, v)
	switch {
	case err == nil || until.Err() != nil || due.Err() == nil:
		return err
	case !quorate:
		return nil
	}
	payload, err := layout.Ask(v.seat.Value, layout.Request{By: r.c.ID, Why: why(v.choice.withoutHeir(), r.me, rivalOf(v.seat))})
	if err != nil {
		return r.awaitSeat(until, v) // not an entry of this library
	}
	_, err = r.c.Session.Commit(ctx, []backend.Condition{backend.IfUnchanged(v.seat)}, backend.Update(v.seat, payload))
	if errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrNoEntry) {
		return r.c.Pause(until, 100*time.Millisecond) // the leader has written, perhaps again and again
	}
	return err
}

// why says for people in what a is better than the leader.
func why(c choice, a, leader rival) string {
	if c.names(a) > c.names(leader) {
		return "it is designated"
	}
	return fmt.Sprintf("it ranks higher: %v, and the leader %v", a.rank, leader.rank)
}

// lookAgain is how often the best candidate looks whether it may ask the leader to go while too few
// candidates stand: none of its waits reports that.
const lookAgain = 10 * time.Second

// claim returns the candidate's claim to the seat.
func (r *race) claim(seat backend.Entry) strategy.Claim {
	r.calm.sees(false) // the seat is not vacant
	claim := entries.Claim(r.c, seat)
	claim.Encode = r.encode
	known := rivalOf(seat).rank
	claim.Renew = func(ctx context.Context) error {
		for slices.Equal(r.rank(), known) {
			until, cancel := r.untilNot(ctx, known)
			<-until.Done()
			cancel()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		known = r.rank()
		return nil
	}
	return claim
}

// encode returns the leader's payload. A leader that may not lead any more asks itself to go.
func (r *race) encode(value []byte) []byte {
	rank := r.rank()
	payload := layout.Candidate{ID: r.c.ID, Value: value, Leads: true, Rank: rank}.Encode()
	if !eligible(rank) {
		payload, _ = layout.Ask(payload, layout.Request{By: r.c.ID, Why: fmt.Sprintf("its rank is %v", rank)})
	}
	return payload
}
