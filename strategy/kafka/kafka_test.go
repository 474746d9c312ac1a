package kafka_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

// A cluster is a service in which brokers elect their controller, on fake time.
type cluster struct {
	t    *testing.T
	svc  *memory.Service
	root string
}

// inCluster runs a test on fake time, at Kafka's own root.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &cluster{t: t, svc: memory.New(memory.Options{}), root: "/"})
	})
}

// broker returns a candidate in a process of its own.
func (c *cluster) broker(id int32) (elector.Elector, *memory.Client) {
	c.t.Helper()
	process := c.svc.Client(fmt.Sprint("broker ", id))
	e := must.Get(elector.New(elector.Config{
		Backend: process, Strategy: kafka.Strategy{}, Election: c.root, ID: strconv.Itoa(int(id)),
	}))(c.t)
	c.t.Cleanup(func() { assert.NoError(c.t, e.Close(context.Background())) })
	return e, process
}

func (c *cluster) campaign(e elector.Elector) *elector.Term {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Hour)
	defer cancel()
	return must.Get(e.Campaign(ctx))(c.t)
}

func TestPathsAndPayloadsAreKafkas(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		e, _ := c.broker(7)
		term := c.campaign(e)
		assert.EqualValues(t, 1, term.Token(), "the first winner's")

		controller := c.svc.Entry("/controller")
		want := fmt.Sprintf(`{"version":1,"brokerid":7,"timestamp":"%d"}`, time.Now().UnixMilli())
		assert.Equal(t, want, string(controller.Value))
		assert.NotEmpty(t, controller.Session, "it is ephemeral")
		epoch := c.svc.Entry("/controller_epoch")
		assert.Equal(t, "1", string(epoch.Value))
		assert.Empty(t, epoch.Session, "it is persistent")

		leader := must.Get(e.Leader(t.Context()))(t)
		assert.Equal(t, elector.Leader{ID: "7", Token: 1, Seat: controller, Since: time.Now().Truncate(time.Millisecond)}, leader)

		// A value adds a field; no value adds none.
		require.NoError(t, term.Proclaim(t.Context(), []byte("host:9092")))
		controller = c.svc.Entry("/controller")
		assert.Contains(t, string(controller.Value), `"value":"aG9zdDo5MDky"}`)
		_, err := term.Commit(t.Context(), elector.Put("/controller2", nil))
		require.NoError(t, err, "it is not the election's own key")
		assert.True(t, term.Valid())
	})
}

func TestBrokerIDs(t *testing.T) {
	svc := memory.New(memory.Options{})
	for id, fine := range map[string]bool{
		"0": true, "7": true, "2147483647": true,
		"2147483648": false, "-1": false, "+1": false, "007": false, "0x7": false, "1.0": false, "host-1": false, " 1": false,
	} {
		cfg := elector.Config{Backend: svc, Strategy: kafka.Strategy{}, Election: "/", ID: id}
		if err := cfg.Validate(); fine {
			assert.NoError(t, err, id)
		} else {
			assert.ErrorIs(t, err, elector.ErrConfig, id)
			assert.ErrorContains(t, err, strconv.Quote(id))
		}
	}
	given := elector.Config{Backend: svc, Strategy: kafka.ForBroker(3), Election: "/", ID: "host-1"}
	require.NoError(t, given.Validate())
	given.Strategy = kafka.ForBroker(-3)
	require.ErrorContains(t, given.Validate(), "Config.Strategy: broker id -3 is negative")
}

// Other strategies are refused the server's root.
func TestRootIsForForeignLayoutsOnly(t *testing.T) {
	cfg := elector.Config{Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/", ID: "1"}
	require.ErrorIs(t, cfg.Validate(), backend.ErrBadKey)
	cfg.Strategy, cfg.Election = kafka.Strategy{}, "relative"
	require.ErrorIs(t, cfg.Validate(), backend.ErrBadKey)
}

func TestObserversSeeBrokerUnderItsID(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		e := must.Get(elector.New(elector.Config{Backend: c.svc, Strategy: kafka.ForBroker(3), Election: "/", ID: "host-1"}))(t)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		c.campaign(e)
		all := must.Get(e.Candidates(t.Context()))(t)
		require.Len(t, all, 1)
		assert.Equal(t, "/controller", all[0].Entry.Key)
		all[0].Entry = backend.Entry{}
		assert.Equal(t, []elector.Candidate{{ID: "3", Leads: true, Own: true}}, all)
	})
}

// Payloads of other versions of Kafka, and of people, are read from /controller.
func TestReadsWhatKafkaWrites(t *testing.T) {
	for value, want := range map[string]elector.Leader{
		`{"version":2,"brokerid":5,"timestamp":"1700000000123","kraftControllerEpoch":-1}`: {ID: "5", Token: 9, Since: time.UnixMilli(1700000000123)},
		`{"version":1,"brokerid":0,"timestamp":"soon"}`:                                    {ID: "0", Token: 9},
		`{"version":1,"brokerid":0,"timestamp":"9223372036854775807"}`:                     {ID: "0", Token: 9},
		`{"version":1,"timestamp":"1700000000123"}`:                                        {Token: 9},
		`{"brokerid":-1}`: {Token: 9},
		`5`:               {Token: 9},
		``:                {Token: 9},
	} {
		inCluster(t, func(t *testing.T, c *cluster) {
			// A broker of Kafka itself leads.
			require.NoError(t, c.svc.Put("/controller_epoch", []byte("9")))
			s := must.Get(c.svc.Open(t.Context(), backend.OpenOptions{}))(t)
			must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/controller", []byte(value))))(t)
			e, _ := c.broker(1)
			leader := must.Get(e.Leader(t.Context()))(t)
			assert.Equal(t, value, string(leader.Seat.Value))
			leader.Seat = backend.Entry{}
			assert.Equal(t, want, leader, value)
			// When it goes, the epoch continues.
			time.AfterFunc(time.Second, func() { assert.NoError(t, s.Close(context.Background())) })
			assert.EqualValues(t, 10, c.campaign(e).Token())
		})
	}
}

// The term ends when somebody writes another broker's id, or anything else, over the leader's.
func TestControllerChangedToAnotherBroker(t *testing.T) {
	for _, value := range []string{`{"version":1,"brokerid":2,"timestamp":"0"}`, "", "{", `{"version":1}`} {
		inCluster(t, func(t *testing.T, c *cluster) {
			e, _ := c.broker(1)
			term := c.campaign(e)
			require.NoError(t, c.svc.Put("/controller", []byte(value)))
			<-term.Context().Done()
			assert.ErrorIs(t, context.Cause(term.Context()), elector.ErrDeposed, value)
			assert.False(t, term.Valid())
			// The old leader's entry is removed, so that there can be a new leader.
			next, _ := c.broker(2)
			assert.EqualValues(t, 2, c.campaign(next).Token())
		})
	}
}

// The whole root goes, with the epoch: then, and only then, the count begins again.
func TestRootDeleted(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.root = "/clusters/one"
		e, _ := c.broker(1)
		term := c.campaign(e)
		next, _ := c.broker(2)
		won := make(chan *elector.Term, 1)
		go func() {
			term, err := next.Campaign(context.Background())
			assert.NoError(t, err)
			won <- term
		}()
		synctest.Wait()
		c.svc.Delete("/clusters")
		<-term.Context().Done()
		assert.EqualValues(t, 1, (<-won).Token())
	})
}

func TestForeignEntries(t *testing.T) {
	ephemeral := func(c *cluster, key string) func() {
		s := must.Get(c.svc.Open(c.t.Context(), backend.OpenOptions{}))(c.t)
		must.Get(s.Commit(c.t.Context(), nil, backend.CreateEphemeral(key, []byte("1"))))(c.t)
		return func() { require.NoError(c.t, s.Close(c.t.Context())) }
	}
	put := func(key, value string) func(c *cluster) func() {
		return func(c *cluster) func() {
			require.NoError(c.t, c.svc.Put(key, []byte(value)))
			return func() { c.svc.Delete(key) }
		}
	}
	for name, leave := range map[string]func(c *cluster) (remove func()){
		"persistent controller": put("/controller", `{"version":1,"brokerid":2,"timestamp":"0"}`),
		"ephemeral epoch":       func(c *cluster) func() { return ephemeral(c, "/controller_epoch") },
		"no epoch":              put("/controller_epoch", "one"),
		"empty epoch":           put("/controller_epoch", ""),
		"negative epoch":        put("/controller_epoch", "-1"),
		"highest epoch":         put("/controller_epoch", strconv.Itoa(math.MaxInt32)),
		"higher epoch":          put("/controller_epoch", strconv.Itoa(math.MaxInt32+1)),
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				remove := leave(c)
				e, _ := c.broker(1)
				_, err := e.Campaign(t.Context())
				require.ErrorIs(t, err, elector.ErrStrategyMismatch)
				assert.ErrorContains(t, err, "/controller", "the error says where")
				remove()
				assert.EqualValues(t, 1, c.campaign(e).Token())
			})
		})
	}
}

// A candidate that comes back in a new session finds the entry of its old one, with its own broker id in it.
// It does not treat it as its own, and waits until it is gone.
func TestOwnEarlierSession(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		e, process := c.broker(1)
		term := c.campaign(e)
		seat := c.svc.Entry("/controller")

		process.Suspend()
		<-term.Context().Done() // by its own clock, before the service drops the session
		require.ErrorIs(t, context.Cause(term.Context()), elector.ErrSessionLost)
		process.Resume()
		again := c.campaign(e)
		assert.EqualValues(t, 2, again.Token())
		now := c.svc.Entry("/controller")
		assert.NotEqual(t, seat.Session, now.Session)
	})
}

// A handover comes before one of an observer's reads: it sees one term or the other, and no mixture.
func TestHandoverBetweenReads(t *testing.T) {
	for before := 1; before <= 6; before++ { // Leader reads three times, then Observe does
		synctest.Test(t, func(t *testing.T) {
			reads, handOver := 0, func() {}
			c := &cluster{t: t, root: "/", svc: memory.New(memory.Options{Intercept: func(s memory.Step) {
				if s.Client != "broker 3" || s.Kind != memory.StepGet {
					return
				}
				if reads++; reads == before {
					handOver()
				}
			}})}
			first, _ := c.broker(1)
			second, _ := c.broker(2)
			viewer, _ := c.broker(3)
			term := c.campaign(first)
			handOver = func() {
				require.NoError(t, term.Resign(t.Context()))
				c.campaign(second)
			}
			elected := func(l elector.Leader) {
				assert.Equal(t, fmt.Sprint(l.Token), l.ID, "handover before read %d", before)
			}
			elected(must.Get(viewer.Leader(t.Context()))(t))
			for l, err := range viewer.Observe(t.Context()) {
				require.NoError(t, err)
				if elected(l); l.ID == "2" {
					break
				}
			}
		})
	}
}

// A claim is refused for no visible reason: there is a pause after each try.
func TestRefusedForNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var tries, retries int
		e := must.Get(elector.New(elector.Config{
			Backend: backend.Intercept(memory.New(memory.Options{}), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
				if len(c.Ops) == 0 {
					return next(ctx)
				}
				if tries++; tries == 1000 {
					cancel()
				}
				return backend.ErrExists
			}),
			Strategy: kafka.Strategy{}, Election: "/", ID: "1",
			Hooks: elector.Hooks{Retry: func(elector.RetryEvent) { retries++ }},
		}))(t)
		_, err := e.Campaign(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "%d tries", tries)
		require.NoError(t, e.Close(context.Background()))
		assert.Equal(t, tries, retries, "the hook is told of each")
	})
}
