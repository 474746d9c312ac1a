package conformance_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

// strategies are those of an election, with what they promise.
var strategies = []conformance.ElectionConfig{
	{Strategy: fair.New(), Ordered: true},
	{Strategy: unfair.New(), Herd: true},
	{
		Strategy: kafka.New(), Herd: true, LooksFirst: true, Dense: true,
		ID: strconv.Itoa, Entries: controller,
	},
}

// controller reads the only entry that candidates have in Kafka's layout.
func controller(ctx context.Context, s backend.Session, election string) ([]backend.Entry, error) {
	e, err := s.Get(ctx, election+"/controller")
	if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
		return nil, nil
	}
	return []backend.Entry{e}, err
}

// notPromised are the rules about what a strategy does not promise.
var notPromised = map[string][]string{
	"fair":   {"data/foreign-seat", "recipe/herd", "epoch/dense", "epoch/raised", "epoch/restart", "epoch/stalled-claim"},
	"unfair": append([]string{"epoch/dense", "epoch/raised", "epoch/restart", "epoch/stalled-claim"}, noOrder...),
	"kafka":  append([]string{"data/foreign-path", "data/mismatch"}, noOrder...),
}

// noOrder are the rules about an order of succession.
var noOrder = []string{"data/deleted-after-handover", "data/deleted-at-handover", "data/waiting-deleted", "recipe/one-wake-up", "recipe/withdrawal-wakes-one", "term/order"}

// oneServer are the rules about ensembles.
var oneServer = []string{"server/member-killed"}

// appliesAll checks that these rules were left out, and no other.
func appliesAll(t *testing.T, report conformance.Report, but ...[]string) {
	t.Helper()
	for _, r := range report.Results {
		listed := slices.Contains(slices.Concat(but...), r.Rule)
		switch {
		case r.Outcome == conformance.NotApplicable && !listed:
			t.Errorf("rule %s was not tried: %s", r.Rule, r.Reason)
		case r.Outcome != conformance.NotApplicable && listed:
			t.Errorf("rule %s was tried, and is listed as one that is not", r.Rule)
		}
	}
}

// A place is a service to try every strategy on.
type place struct {
	name string
	// start starts servers of the test's own.
	start func(t *testing.T) func(testing.TB) *conformance.Service
	// lacks are the rules that do not apply; late are those that do not with an order of
	// succession, and why.
	lacks []string
	late  map[string]string
}

const (
	zooKeeperTTL = 3 * time.Second
	etcdTTL      = 3 * time.Second
	// Consul's own session timeout is ten seconds at least, and twice that until a crash
	// is noticed. With a health check of its own a session has a short one. The clusters
	// are tried with plain sessions: a check lives on one agent, and cannot move.
	consulCheck = 3 * time.Second
)

// notOnZooKeeper are the rules that need notices to be held while all else goes on,
// and the one about a limit that it does not have.
var notOnZooKeeper = []string{
	"cancel/handover", "data/deleted-after-handover", "data/deleted-at-handover",
	"loss/expires-after-handover", "loss/expires-at-handover", "fence/too-many",
}

// lateOnEtcd are the rules that take a read after the notice of a change: without one
// a candidate knows what stood when its predecessor went, and not what stands now. On
// ZooKeeper it is the same, but a notice cannot be held back there.
var lateOnEtcd = map[string]string{
	"data/deleted-after-handover": atTheInstant,
	"loss/expires-after-handover": atTheInstant,
}

const atTheInstant = "a notice shows what stood at the instant of the change, and may be late; a read after it would cost two fifths of a handover"

func TestElectionOnServers(t *testing.T) {
	tryAll(t,
		place{"zookeeper", func(t *testing.T) func(testing.TB) *conformance.Service {
			return zktest.Single(t).Service(zooKeeperTTL)
		}, slices.Concat(oneServer, notOnZooKeeper), nil},
		place{"etcd", func(t *testing.T) func(testing.TB) *conformance.Service {
			return etcdtest.Single(t).Service(etcdTTL)
		}, oneServer, lateOnEtcd},
		place{"consul", func(t *testing.T) func(testing.TB) *conformance.Service {
			return consultest.Single(t).Service(consulCheck, consul.Config{Check: consulCheck})
		}, oneServer, nil},
	)
}

func TestElectionOnClusters(t *testing.T) {
	tryAll(t,
		place{"zookeeper", func(t *testing.T) func(testing.TB) *conformance.Service {
			return zktest.Ensemble(t).Service(zooKeeperTTL)
		}, notOnZooKeeper, nil},
		place{"etcd", func(t *testing.T) func(testing.TB) *conformance.Service {
			return etcdtest.Cluster(t).Service(etcdTTL)
		}, nil, lateOnEtcd},
		place{"consul", func(t *testing.T) func(testing.TB) *conformance.Service {
			return consultest.Cluster(t).Service(consul.MinSessionTimeout, consul.Config{})
		}, nil, nil},
	)
}

// tryAll tries every strategy on one place after the other: too many servers at once
// would slow each other down.
func tryAll(t *testing.T, places ...place) {
	t.Parallel()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			for _, cfg := range strategies {
				t.Run(cfg.Strategy.Name(), func(t *testing.T) {
					t.Parallel()
					cfg := cfg
					cfg.Service = p.start(t)
					but := slices.Concat(p.lacks, notPromised[cfg.Strategy.Name()])
					if cfg.Ordered {
						cfg.Why = p.late
						but = slices.AppendSeq(but, maps.Keys(p.late))
					}
					appliesAll(t, conformance.TestElection(t, cfg), but)
				})
			}
		})
	}
}
