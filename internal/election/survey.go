package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// MinSurveyEvery leaves a wait the time to find out that it need not wait: each survey makes the wait begin
// again with its first read.
const MinSurveyEvery = time.Second

// A Surveyor looks for strangers in the election from time to time, while a candidate waits for other
// things. A change that the candidate waits for causes no survey and no extra request. A nil Surveyor looks
// for none.
type Surveyor struct {
	e     *Election
	s     *backend.Session
	every time.Duration

	mu   sync.Mutex
	next time.Time
}

// NewSurveyor returns a Surveyor that looks about as often as every says: zero means a minute, and a negative
// value means never. It returns nil for a custom layout, where others may stand.
func (e *Election) NewSurveyor(s *backend.Session, every time.Duration) *Surveyor {
	v := &Surveyor{e: e, s: s, every: every}
	if v.every == 0 {
		v.every = time.Minute
	}
	if v.every < 0 || e.Foreign {
		return nil
	}
	v.schedule()
	return v
}

// schedule sets the time of the next survey. The time is random, so that candidates that came at once do not
// survey at once.
func (v *Surveyor) schedule() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = time.Now().Add(v.every - rand.N(v.every/4+1))
}

// Soon schedules the first survey of a leader, whose last one may be long ago. It does not delay a
// handover.
func (v *Surveyor) Soon() *Surveyor {
	if v != nil {
		v.next = time.Now().Add(MinSurveyEvery)
	}
	return v
}

func (v *Surveyor) due() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.next
}

// Survey returns ErrOccupied if there are strangers. The wait reports any other error, so Survey does not hold
// it up for long.
func (v *Surveyor) Survey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, _, err := v.e.Find(ctx, v.s); errors.Is(err, ErrOccupied) {
		return err
	}
	return nil
}

// Watch waits, and calls survey when one is due. It returns the error of survey, if there is one, and
// otherwise the result of the wait.
func (v *Surveyor) Watch(ctx context.Context, survey, wait func(context.Context) error) error {
	if v == nil {
		return wait(ctx)
	}
	for {
		until, cancel := context.WithDeadline(ctx, v.due())
		err := wait(until)
		isDue := until.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !isDue {
			return err
		}
		err = survey(ctx)
		v.schedule()
		if err != nil {
			return err
		}
	}
}
