package conformance_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
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

// services makes the service of each rule.
type services = func(testing.TB) *conformance.Service

// onServers tries every strategy on servers of its own. All rules apply, but those
// listed.
func onServers(t *testing.T, start func(t *testing.T) services, but ...[]string) {
	for _, cfg := range strategies {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.Service = start(t)
			without := slices.Clone(but)
			if strings.HasPrefix(t.Name(), "TestElectionOnEtcd") && cfg.Ordered {
				cfg.Why = lateOnEtcd
				without = append(without, slices.Collect(maps.Keys(lateOnEtcd)))
			}
			appliesAll(t, conformance.TestElection(t, cfg), append(without, notPromised[cfg.Strategy.Name()])...)
		})
	}
}

const zooKeeperTTL = 3 * time.Second

// notOnZooKeeper are the rules that need notices to be held while all else goes on,
// and the one about a limit that it does not have.
var notOnZooKeeper = []string{
	"cancel/handover", "data/deleted-after-handover", "data/deleted-at-handover",
	"loss/expires-after-handover", "loss/expires-at-handover", "fence/too-many",
}

func TestElectionOnZooKeeper(t *testing.T) {
	onServers(t, func(t *testing.T) services { return zktest.Single(t).Service(zooKeeperTTL) }, oneServer, notOnZooKeeper)
}

func TestElectionOnZooKeeperEnsemble(t *testing.T) {
	onServers(t, func(t *testing.T) services { return zktest.Ensemble(t).Service(zooKeeperTTL) }, notOnZooKeeper)
}

const etcdTTL = 3 * time.Second

// lateOnEtcd are the rules that take a read after the notice of a change: without one
// a candidate knows what stood when its predecessor went, and not what stands now. On
// ZooKeeper it is the same, but a notice cannot be held back there.
var lateOnEtcd = map[string]string{
	"data/deleted-after-handover": atTheInstant,
	"loss/expires-after-handover": atTheInstant,
}

const atTheInstant = "a notice shows what stood at the instant of the change, and may be late; a read after it would cost two fifths of a handover"

func TestElectionOnEtcd(t *testing.T) {
	onServers(t, func(t *testing.T) services { return etcdtest.Single(t).Service(etcdTTL) }, oneServer)
}

func TestElectionOnEtcdCluster(t *testing.T) {
	onServers(t, func(t *testing.T) services { return etcdtest.Cluster(t).Service(etcdTTL) })
}

// Consul's own session timeout is ten seconds at least, and twice that until a crash
// is noticed. With a health check of its own a session has a short one.
const consulCheck = 3 * time.Second

func TestElectionOnConsul(t *testing.T) {
	onServers(t, func(t *testing.T) services {
		return consultest.Single(t).Service(consulCheck, consul.Config{Check: consulCheck})
	}, oneServer)
}

// Plain sessions, and a cluster: a check lives on one agent, and cannot move.
func TestElectionOnConsulCluster(t *testing.T) {
	onServers(t, func(t *testing.T) services {
		return consultest.Cluster(t).Service(consul.MinSessionTimeout, consul.Config{})
	})
}
