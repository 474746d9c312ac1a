package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

const path = "/jobs/reindex"

// A stage is a service with candidates and an Inspector, in a bubble.
type stage struct {
	*testing.T
	service *memory.Service
	in      *inspect.Inspector
}

func newStage(t *testing.T, o inspect.Options) *stage {
	s := &stage{T: t, service: memory.New(memory.Options{})}
	s.in = inspector(t, s.service.Client("operator"), o)
	return s
}

// inspector makes an Inspector that the test closes.
func inspector(t *testing.T, b backend.Backend, o inspect.Options) *inspect.Inspector {
	t.Helper()
	in := must.Get(inspect.New(b, o))(t)
	t.Cleanup(func() { assert.NoError(t, in.Close(context.Background())) })
	return in
}

// run makes a candidate stand until the test ends or end is called: it leads until it is asked to go.
func run(t *testing.T, b backend.Backend, s strategy.Strategy, election, id string) (end func()) {
	t.Helper()
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: s, Election: election, ID: id, Value: []byte("at " + id)}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
		assert.NoError(t, e.Close(context.Background()))
	})
	end = func() { cancel(); running.Wait() }
	t.Cleanup(end)
	return end
}

// stand makes a candidate stand, and waits until the bubble is quiet.
func (s *stage) stand(strategy strategy.Strategy, id string) (end func()) {
	s.Helper()
	end = run(s.T, s.service.Client(id), strategy, path, id)
	synctest.Wait()
	return end
}

func bubble(t *testing.T, o inspect.Options, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newStage(t, o)) })
}

func ids(v inspect.View) (all []string) {
	for _, c := range v.Candidates {
		all = append(all, c.ID)
	}
	return all
}

// each runs a test with each strategy.
func each(t *testing.T, f func(s *stage, item catalog.Item)) {
	t.Helper()
	for _, item := range slices.Concat(catalog.All(), catalog.Variants()) {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			bubble(t, inspect.Options{}, func(s *stage) { f(s, item) })
		})
	}
}

func TestEachStrategy(t *testing.T) {
	each(t, func(s *stage, item catalog.Item) {
		require.ErrorIs(s, must.Err(s.in.Leader(s.Context(), path)), elector.ErrNoElection)
		began := time.Now()
		s.stand(item.Strategy, "7")
		time.Sleep(time.Second)
		s.stand(item.Strategy, "8")
		s.stand(item.Strategy, "9")

		v := must.Get(s.in.Leader(s.Context(), path))(s)
		assert.Equal(s, item.Strategy.Name(), v.Strategy)
		require.NotNil(s, v.Leader)
		assert.Equal(s, "7", v.Leader.ID)
		assert.Equal(s, "at 7", string(v.Leader.Value))
		assert.NotZero(s, v.Leader.Token)
		assert.NotEmpty(s, v.Leader.Session)
		assert.Equal(s, time.Now(), v.At)
		if item.Numeric { // kafka's entry has the time of the win
			assert.WithinDuration(s, began, v.Leader.Since, time.Millisecond)
		}

		v = must.Get(s.in.Candidates(s.Context(), path))(s)
		want := []string{"7", "8", "9"}
		if !item.Lists {
			want = want[:1]
		}
		if item.Ordered || item.Ranked {
			assert.Equal(s, want, ids(v))
		}
		assert.ElementsMatch(s, want, ids(v))
		assert.Equal(s, len(want), v.Count)
		assert.Equal(s, !item.Lists, v.Hidden)
		for n, c := range v.Candidates {
			assert.Equal(s, n == 0, c.Leads)
			assert.NotEmpty(s, c.Session)
		}
		assert.Equal(s, v.Leader.Key, v.Candidates[0].Key)
		assert.Equal(s, v.Leader.Since, v.Candidates[0].Since)
	})
}

// TestAskEach checks that a leader of each strategy goes when it is asked, and that a transfer is made or
// refused.
func TestAskEach(t *testing.T) {
	each(t, func(s *stage, item catalog.Item) {
		require.ErrorIs(s, must.Err(s.in.Ask(s.Context(), path, elector.Request{By: "anna"})), elector.ErrNoElection)
		s.stand(item.Strategy, "7")
		s.stand(item.Strategy, "8")
		s.stand(item.Strategy, "9")
		before := must.Get(s.in.Leader(s.Context(), path))(s)

		asked, err := s.in.Transfer(s.Context(), path, "9", elector.Request{By: "anna", Why: "deploy"})
		if _, can := item.Strategy.(strategy.Transferrer); can {
			require.NoError(s, err)
			assert.Equal(s, "7", asked.ID)
			assert.Nil(s, asked.Asked)
		} else {
			require.ErrorIs(s, err, elector.ErrNoTransfer)
			assert.Equal(s, "7", must.Get(s.in.Ask(s.Context(), path, elector.Request{By: "anna", Why: "deploy"}))(s).ID)
		}
		time.Sleep(time.Second)
		after := must.Get(s.in.Leader(s.Context(), path))(s)
		require.NotNil(s, after.Leader)
		assert.Greater(s, after.Leader.Token, before.Leader.Token)
		if _, can := item.Strategy.(strategy.Transferrer); can {
			assert.Equal(s, "9", after.Leader.ID)
		}
	})
}

func TestAskedBefore(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		e := must.Get(elector.New(elector.Config{Backend: s.service, Strategy: fair.Strategy{}, Election: path, ID: "deaf"}))(s)
		defer func() { assert.NoError(s, e.Close(context.Background())) }()
		_, err := e.Campaign(s.Context()) // and ignores requests
		require.NoError(s, err)
		synctest.Wait() // it has written its mark; its next write, after it has heard, removes the request
		must.Get(s.in.Ask(s.Context(), path, elector.Request{By: "anna", Why: "deploy"}))(s)
		asked := must.Get(s.in.Ask(s.Context(), path, elector.Request{By: "ben"}))(s)
		assert.Equal(s, &elector.Request{By: "anna", Why: "deploy"}, asked.Asked)
		assert.Equal(s, asked.Asked, must.Get(s.in.Leader(s.Context(), path))(s).Leader.Asked)

		require.ErrorIs(s, must.Err(s.in.Transfer(s.Context(), path, "nobody", elector.Request{})), elector.ErrNoCandidate)
		require.ErrorIs(s, must.Err(s.in.Transfer(s.Context(), path, "", elector.Request{})), elector.ErrConfig)
	})
}

func TestDesignate(t *testing.T) {
	each(t, func(s *stage, item catalog.Item) {
		s.stand(item.Strategy, "7")
		s.stand(item.Strategy, "8")
		s.stand(item.Strategy, "9")
		d := inspect.Designation{ID: "9", By: "anna", Why: "deploy"}
		err := s.in.Designate(s.Context(), path, d)
		if _, heeds := item.Strategy.(strategy.Designator); !heeds {
			require.ErrorIs(s, err, elector.ErrNoDesignation)
			return
		}
		require.NoError(s, err)
		v := must.Get(s.in.Candidates(s.Context(), path))(s)
		assert.Equal(s, &d, v.Designated)
		assert.Equal(s, []string{"7", "9", "8"}, ids(v))
		assert.True(s, v.Candidates[1].Designated)
		require.NoError(s, s.in.Undesignate(s.Context(), path))
		v = must.Get(s.in.Candidates(s.Context(), path))(s)
		assert.Nil(s, v.Designated)
		assert.Equal(s, []string{"7", "8", "9"}, ids(v))
		require.ErrorIs(s, s.in.Designate(s.Context(), path, inspect.Designation{}), elector.ErrConfig)
	})
}

func TestRemove(t *testing.T) {
	each(t, func(s *stage, item catalog.Item) {
		require.ErrorIs(s, must.Err(s.in.Remove(s.Context(), path, inspect.RemoveOptions{})), elector.ErrNoElection)
		end := s.stand(item.Strategy, "7")
		if _, custom := item.Strategy.(strategy.CustomLayout); custom {
			require.ErrorIs(s, must.Err(s.in.Remove(s.Context(), path, inspect.RemoveOptions{Evict: true})), elector.ErrConfig, "kafka's tokens must not restart")
			assert.NotNil(s, must.Get(s.in.Leader(s.Context(), path))(s).Leader)
			return
		}
		gone, err := s.in.Remove(s.Context(), path, inspect.RemoveOptions{})
		require.ErrorIs(s, err, elector.ErrInUse)
		assert.Equal(s, inspect.Removed{Election: path, Strategy: item.Strategy.Name()}, gone)
		end()
		assert.Nil(s, must.Get(s.in.Leader(s.Context(), path))(s).Leader)
		gone = must.Get(s.in.Remove(s.Context(), path, inspect.RemoveOptions{}))(s)
		assert.Empty(s, gone.Kept)
		assert.Equal(s, path, backend.Parent(gone.Directory))
		assert.False(s, s.service.Entry(path).Exists())
		assert.False(s, s.service.Entry(gone.Directory).Exists())
	})
}

// TestEvict checks that entries that no process holds can be removed, and that live candidates come back.
func TestEvict(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(unfair.Strategy{}, "7")()
		var record struct{ Dir string }
		require.NoError(s, json.Unmarshal(s.service.Entry(path).Value, &record))
		dir := path + "/" + record.Dir
		put(s.T, s.service, dir+"/seat", path+"-state", path+"/mine")

		require.ErrorIs(s, must.Err(s.in.Remove(s.Context(), path, inspect.RemoveOptions{})), elector.ErrInUse)
		gone := must.Get(s.in.Remove(s.Context(), path, inspect.RemoveOptions{Evict: true}))(s)
		assert.Equal(s, []string{dir + "/seat"}, gone.Entries)
		assert.Equal(s, dir, gone.Directory)
		assert.Contains(s, gone.Kept, "other keys")
		assert.True(s, s.service.Entry(path+"/mine").Exists())
		assert.True(s, s.service.Entry(path+"-state").Exists())
	})
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		s.stand(fair.Strategy{}, "8")
		gone, err := s.in.Remove(s.Context(), path, inspect.RemoveOptions{Evict: true})
		if err == nil {
			assert.NotEmpty(s, gone.Entries)
		} else {
			require.ErrorIs(s, err, elector.ErrInUse)
			assert.ErrorContains(s, err, "stop the processes")
		}
	})
}

// own is a strategy that is not the library's.
type own struct{ fair.Strategy }

func (own) Name() string { return "own" }

func TestUnknownStrategy(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(own{}, "anna")
		s.stand(own{}, "ben")
		v := must.Get(s.in.Candidates(s.Context(), path))(s)
		assert.True(s, v.Unknown)
		assert.Equal(s, "own", v.Strategy)
		require.NotNil(s, v.Leader)
		assert.Equal(s, "anna", v.Leader.ID)
		assert.Equal(s, []string{"anna", "ben"}, ids(v))

		_, err := s.in.Ask(s.Context(), path, elector.Request{})
		require.ErrorIs(s, err, inspect.ErrUnknownStrategy)
		assert.ErrorContains(s, err, "Options.Strategies")
		require.ErrorIs(s, s.in.Designate(s.Context(), path, inspect.Designation{ID: "ben"}), inspect.ErrUnknownStrategy)
		require.ErrorIs(s, must.Err(s.in.Remove(s.Context(), path, inspect.RemoveOptions{Evict: true})), inspect.ErrUnknownStrategy)

		told := inspector(s.T, s.service, inspect.Options{Strategies: []strategy.Strategy{own{}}})
		v = must.Get(told.Candidates(s.Context(), path))(s)
		assert.False(s, v.Unknown)
		assert.Equal(s, []string{"anna", "ben"}, ids(v))
		must.Get(told.Ask(s.Context(), path, elector.Request{}))(s)
		synctest.Wait()
		assert.Equal(s, "ben", must.Get(told.Leader(s.Context(), path))(s).Leader.ID)
	})
}

// TestKafkaAtTheRoot checks Kafka's own place, the root, where no key can be asked about.
func TestKafkaAtTheRoot(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		end := run(s.T, s.service.Client("7"), kafka.Strategy{}, "/", "7")
		synctest.Wait()
		v := must.Get(s.in.Candidates(s.Context(), "/"))(s)
		assert.Equal(s, "kafka", v.Strategy)
		assert.Equal(s, []string{"7"}, ids(v))
		end()
		v = must.Get(s.in.Candidates(s.Context(), "/"))(s)
		assert.Nil(s, v.Leader)
		assert.Equal(s, "kafka", v.Strategy, "the epoch tells")
	})
}

func TestWhatIsNoElection(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		session := must.Get(s.service.Open(s.Context(), backend.OpenOptions{}))(s)
		defer func() { assert.NoError(s, session.Close(context.Background())) }()
		_, err := session.Commit(s.Context(), nil, backend.CompareAndSet("/a/b", []byte("notes"), 0),
			backend.CompareAndSet("/a/later", []byte(`{"v":9,"strategy":"fair","dir":"e1"}`), 0), backend.CreateEphemeral("/a/taken", nil))
		require.NoError(s, err)
		for key, says := range map[string]string{
			"/a": "no record", "/a/b": "not an election record", "/a/later": "version 9", "/a/taken": "ephemeral", "/no/where": "no record", "/": "no record",
		} {
			_, err := s.in.Leader(s.Context(), key)
			require.ErrorIs(s, err, elector.ErrNoElection, key)
			assert.ErrorContains(s, err, says)
		}
		for _, key := range []string{"", "a", "/a/", "/a//b", "/zookeeper"} {
			_, err := s.in.Leader(s.Context(), key)
			require.ErrorIs(s, err, elector.ErrConfig, key)
			require.ErrorIs(s, err, backend.ErrBadKey, key)
		}
	})
}

func TestNew(t *testing.T) {
	b := memory.New(memory.Options{})
	_, err := inspect.New(nil, inspect.Options{Strategies: []strategy.Strategy{nil, own{}, own{}}})
	require.ErrorIs(t, err, elector.ErrConfig)
	for _, says := range []string{"backend is nil", "Strategies[0] is nil", `second one named "own"`} {
		assert.ErrorContains(t, err, says)
	}
	_, err = inspect.New(b, inspect.Options{TTL: time.Nanosecond})
	require.ErrorIs(t, err, elector.ErrConfig)
	assert.ErrorContains(t, err, "TTL 1ns")
}

// TestSession checks that there is one session, in which nothing is made, and none after Close.
func TestSession(t *testing.T) {
	bubble(t, inspect.Options{TTL: 3 * time.Second}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		before := s.service.Stats()
		for range 3 {
			must.Get(s.in.Candidates(s.Context(), path))(s)
			require.ErrorIs(s, must.Err(s.in.Ask(s.Context(), path, elector.Request{To: "nobody"})), elector.ErrNoCandidate)
		}
		after := s.service.Stats()
		assert.Equal(s, before.Opens+1, after.Opens)
		assert.Equal(s, before.Entries, after.Entries)
		require.NoError(s, s.in.Close(s.Context()))
		require.NoError(s, s.in.Close(s.Context()))
		assert.Equal(s, before.Sessions, s.service.Stats().Sessions)
		require.ErrorIs(s, must.Err(s.in.Leader(s.Context(), path)), elector.ErrClosed)
		require.ErrorIs(s, must.Err(s.in.Ask(s.Context(), path, elector.Request{})), elector.ErrClosed)
	})
}

// TestFresh checks that a new session whose server is behind shows the current state.
func TestFresh(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.service.Lag()
		s.stand(fair.Strategy{}, "7")
		v := must.Get(s.in.Leader(s.Context(), path))(s)
		require.NotNil(s, v.Leader)
		assert.Equal(s, "7", v.Leader.ID)
	})
}

func TestUnreachable(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.service.Stop()
		require.ErrorIs(s, must.Err(s.in.Leader(s.Context(), path)), backend.ErrUnavailable)
		s.service.Start()
		s.stand(fair.Strategy{}, "7")
		must.Get(s.in.Leader(s.Context(), path))(s)
		s.service.Stop()
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, errors.New("no more patience"))
		defer cancel()
		_, err := s.in.Leader(ctx, path)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		assert.ErrorContains(s, err, "no more patience")
		s.service.Start()
	})
}

func TestJSON(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(ranked.Strategy{Rank: ranked.NewRank(3, 1)}, "host-1")
		v := must.Get(s.in.Candidates(s.Context(), path))(s)
		text := must.Get(json.Marshal(v))(s)
		c := v.Candidates[0]
		want := fmt.Sprintf(`{"election":"/jobs/reindex","strategy":"ranked",
			"leader":{"id":"host-1","value":"YXQgaG9zdC0x","token":%d,"session":%q,"key":%q},
			"candidates":[{"id":"host-1","value":"YXQgaG9zdC0x","leads":true,"rank":[3,1],"session":%[2]q,"key":%[3]q,"rev":%d}],
			"count":1,"at":"%s"}`, v.Leader.Token, c.Session, c.Key, c.Rev, v.At.Format(time.RFC3339Nano))
		assert.JSONEq(s, want, string(text))
		var back inspect.View
		require.NoError(s, json.Unmarshal(text, &back))
		assert.Equal(s, v.Leader, back.Leader)
	})
}
