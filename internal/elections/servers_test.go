package elections_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/strategies"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy"
)

// notPromised returns the rules about what a strategy with these traits does not promise.
func notPromised(cfg conformance.ElectionConfig) []string {
	var rules []string
	leaveOut := func(when bool, names ...string) {
		if when {
			rules = append(rules, names...)
		}
	}
	_, custom := cfg.Strategy.(strategy.CustomLayout)
	leaveOut(custom, noRecord...)
	leaveOut(!cfg.Dense, noEpoch...)
	leaveOut(!cfg.Lists, "data/used-up", "data/waiting-deleted")
	leaveOut(!cfg.Ordered, "recipe/observing", "term/order")
	leaveOut(!cfg.Ordered || cfg.Seat, "view/no-vacancy")
	leaveOut(!cfg.Ordered || cfg.Seat || cfg.Herd, "recipe/one-wake-up")
	leaveOut(!cfg.Ordered || cfg.Herd, "recipe/withdrawal-wakes-one")
	leaveOut(!cfg.Seat, "data/foreign-seat")
	leaveOut(!cfg.Ranked, ofRanks...)
	leaveOut(!cfg.Herd, "recipe/herd")
	leaveOut(cfg.Ordered && cfg.Herd, "recipe/joining-wakes-nobody")
	_, transfers := cfg.Strategy.(strategy.Transferrer)
	leaveOut(transfers, "transfer/refused")
	leaveOut(!transfers, "transfer/heir", "transfer/twice", "transfer/unknown", "transfer/same-id")
	leaveOut(!cfg.StepsAside, hops...)
	return rules
}

// noRecord are the rules about the record and the directory of this library's layout.
var noRecord = []string{
	"data/foreign-path", "data/mismatch", "data/occupied", "data/occupied-late", "remove/any-time", "remove/in-use", "remove/leaves-nothing",
}

// noEpoch are the rules about a dense token.
var noEpoch = []string{"epoch/dense", "epoch/raised", "epoch/restart", "epoch/stalled-claim"}

// ofRanks are the rules about candidates with ranks.
var ofRanks = []string{
	"ranked/best-leads", "ranked/changes", "ranked/negative", "ranked/quorum", "ranked/preempts",
	"ranked/designated", "ranked/newcomer", "ranked/listed", "ranked/wakes-few",
}

// hops are the rules about a transfer past other candidates in line.
var hops = []string{
	"transfer/next", "transfer/prepare", "transfer/fails", "transfer/request", "transfer/used-up",
}

// notOnServers are the rules about processes that die: the candidates are in the test's own process.
var notOnServers = []string{"loss/process-dies"}

// oneServer are the rules about ensembles.
var oneServer = []string{"server/member-killed"}

// appliesAll checks that only these rules were left out.
func appliesAll(t *testing.T, report conformance.Report, but ...[]string) {
	t.Helper()
	for _, r := range report.Results {
		listed := slices.Contains(slices.Concat(but...), r.Rule)
		switch {
		case r.Outcome == conformance.LeftOut:
		case r.Outcome == conformance.NotApplicable && !listed:
			t.Errorf("rule %s was not tried: %s", r.Rule, r.Reason)
		case r.Outcome != conformance.NotApplicable && listed:
			t.Errorf("rule %s was tried, and is listed as one that is not", r.Rule)
		}
	}
}

// A place is a service to run every strategy on.
type place struct {
	// start starts servers for a test of a strategy.
	start func(t *testing.T, of conformance.Traits) func(testing.TB) *conformance.Service
	// lacks are the rules that do not apply; late reports whether the rule in late does not apply to a
	// strategy, either.
	lacks []string
	late  func(conformance.Traits) bool
	// atOnce is how many strategies run in parallel.
	atOnce int
}

// ttl is the timeout of all sessions. A machine that stalls for seconds costs none of them.
const ttl = 10 * time.Second

// noEnd are the rules about the end of a directory's numbers: on etcd and Consul the numbers have no end,
// and on ZooKeeper these rules run on one server.
var noEnd = []string{"data/used-up", "transfer/used-up"}

// notOnZooKeeper are the rules that hold notices or requests back while all else continues.
var notOnZooKeeper = []string{"cancel/handover", "loss/after-handover", "loss/at-handover", "fence/late"}

// late is the rule that needs a read after the notice of a change: without the read a candidate knows what
// existed when its predecessor went, not what exists now. The same holds on ZooKeeper, but there a notice
// cannot be held back. What etcd reports about an entry is such a notice, and what Consul reports about a
// directory.
const late = "loss/after-handover"

func lateOnEtcd(of conformance.Traits) bool   { return !of.Seat && !of.Herd }
func lateOnConsul(of conformance.Traits) bool { return !of.Seat && of.Herd }

const atTheInstant = "a notice shows what stood at the instant of the change, and may be late; a read after it would cost two fifths of a handover"

var stall = flag.Duration("stall", 0, "pause a member of each cluster, at random, for up to this long, over and over: it is behind the others then")

func init() {
	flag.DurationVar(&proxytest.Jitter, "jitter", 0, "let what is sent arrive at random up to this much later: processes overtake each other then")
}

// stalls pauses members as the flag says until the test ends.
func stalls[M interface {
	Pause() error
	Resume() error
}](t *testing.T, members []M) {
	if *stall == 0 {
		return
	}
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			m := members[rand.IntN(len(members))]
			_ = m.Pause() // fails if a rule has killed it
			time.Sleep(rand.N(*stall))
			_ = m.Resume()
			time.Sleep(rand.N(*stall/10 + 1))
		}
	}()
}

func TestZooKeeper(t *testing.T) {
	tryAll(t, place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			return zktest.Single(t).Service(ttl)
		},
		lacks:  slices.Concat(oneServer, notOnZooKeeper),
		atOnce: single,
	})
}

func TestEtcd(t *testing.T) {
	tryAll(t, place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			return etcdtest.Single(t).Service(ttl)
		},
		lacks:  slices.Concat(oneServer, noEnd),
		late:   lateOnEtcd,
		atOnce: single,
	})
}

// Consul's plain sessions time out after twice their timeout, those with a health check after the check's
// timeout. Strategies whose candidates wait without an entry run with plain sessions, which are the default, and so do
// the clusters: a check lives on one agent, and cannot move.
func TestConsul(t *testing.T) {
	tryAll(t, place{
		start: func(t *testing.T, of conformance.Traits) func(testing.TB) *conformance.Service {
			cfg := consul.Config{Check: ttl}
			if !of.Lists {
				cfg.Check = 0
			}
			return consultest.Single(t).Service(ttl, cfg)
		},
		lacks:  slices.Concat(oneServer, noEnd),
		late:   lateOnConsul,
		atOnce: single,
	})
}

func TestZooKeeperEnsemble(t *testing.T) {
	onCluster(t, place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			s := zktest.Ensemble(t)
			stalls(t, s.Members)
			return s.Service(ttl)
		},
		lacks: slices.Concat(notOnZooKeeper, noEnd),
	})
}

// Links that authenticate before anything else meet the same faults. The suite's operator has no credentials.
func TestZooKeeperSASL(t *testing.T) {
	servertest.Long(t, "three servers")
	t.Parallel()
	fair, _ := strategies.Named("fair")
	p := place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			s := zktest.EnsembleWith(t, servertest.ZooKeeperConfig{JAAS: servertest.DigestJAAS("ann", "secret")}, func(cfg *zookeeper.Config) {
				cfg.SASL, cfg.ACL = zookeeper.DigestMD5("ann", "secret"), zk.WorldACL(zk.PermAll)
			})
			stalls(t, s.Members)
			return s.Service(ttl)
		},
		lacks: slices.Concat(notOnZooKeeper, noEnd),
	}
	p.try(t, fair)
}

func TestEtcdCluster(t *testing.T) {
	onCluster(t, place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			s := etcdtest.Cluster(t)
			stalls(t, s.Members)
			return s.Service(ttl)
		},
		lacks: noEnd,
		late:  lateOnEtcd,
	})
}

func TestConsulCluster(t *testing.T) {
	onCluster(t, place{
		start: func(t *testing.T, _ conformance.Traits) func(testing.TB) *conformance.Service {
			s := consultest.Cluster(t)
			stalls(t, s.Members)
			return s.Service(ttl, consul.Config{})
		},
		lacks: noEnd,
		late:  lateOnConsul,
	})
}

const (
	single   = 5 // each on its own server: rules mostly wait
	clusters = 2 // servers compute while they wait, and fifteen members use two processors
)

func onCluster(t *testing.T, p place) {
	servertest.Long(t, "three servers for each strategy")
	p.atOnce = clusters
	tryAll(t, p)
}

// tryAll runs every strategy.
func tryAll(t *testing.T, p place) {
	t.Parallel()
	all := make(chan conformance.ElectionConfig)
	var tries sync.WaitGroup
	for range p.atOnce {
		tries.Go(func() {
			for cfg := range all {
				t.Run(cfg.Strategy.Name(), func(t *testing.T) { p.try(t, cfg) })
			}
		})
	}
	for _, cfg := range strategies.All() {
		all <- cfg
	}
	close(all)
	tries.Wait()
}

// try runs a strategy.
func (p place) try(t *testing.T, cfg conformance.ElectionConfig) {
	cfg.Service = p.start(t, cfg.Traits)
	cfg.Why = make(map[string]string)
	if p.late != nil && p.late(cfg.Traits) {
		cfg.Why[late] = atTheInstant
	}
	lacks := slices.AppendSeq(slices.Concat(p.lacks, notOnServers, notPromised(cfg)), maps.Keys(cfg.Why))
	appliesAll(t, conformance.TestElection(t, cfg), lacks)
}
