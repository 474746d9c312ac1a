package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/strategy/catalog"
)

// A tier is a part of the tests.
type tier string

const (
	// testTier is everything once: what a stranger runs.
	testTier tier = "test"
	// restTier is what testTier leaves out.
	restTier tier = "rest"
	// allTiers are both.
	allTiers tier = "all"
)

// services are those that a run can be limited to.
var services = []string{"memory", "zookeeper", "etcd", "consul"}

// modules are those beside the library's: ./... does not lead from one into another.
var modules = []string{"cmd/elector", "examples/fencing", "examples/recipes", "internal/fencetest", "adapter/gocron", "metrics/otel", "metrics/prometheus", "internal/release"}

// usual is how long each module's tests take on a machine that is quiet and no slower than usual.
var usual = map[string]time.Duration{
	"cmd/elector": 90 * time.Second, "examples/recipes": 40 * time.Second, "internal/release": 90 * time.Second,
}

// forReleases is the one of which the second tier is enough: it builds the command from nothing.
const forReleases = "internal/release"

// onServersToo are those that need servers, which a set-up for memory alone lacks.
var onServersToo = []string{"examples/recipes", "internal/fencetest", "adapter/gocron", "metrics/prometheus"}

// A combination is a strategy on real servers. It bears the name of its test.
type combination struct{ test, service, strategy string }

const (
	onServers        = "TestElectionOnServers"
	onClusters       = "TestElectionOnClusters"
	onConsulClusters = "TestElectionOnConsulClusters"
)

// String is the name of its test.
func (c combination) String() string { return c.test + "/" + c.service + "/" + c.strategy }

func (c combination) single() bool { return c.test == onServers }

// places are the real servers that elections are tried on.
var places = []combination{
	{onServers, "zookeeper", ""}, {onServers, "etcd", ""}, {onServers, "consul", ""},
	{onClusters, "zookeeper", ""}, {onClusters, "etcd", ""}, {onConsulClusters, "consul", ""},
}

// turns is after how many of them all that takes turns has had its own: one for each single server.
const turns = 3

// eachRun are the strategies that every run tries on each single server.
var eachRun = []string{"fair", "kafka"}

// strategies are all: those in eachRun, and then those that take turns.
var strategies = slices.Concat(eachRun, slices.DeleteFunc(catalog.Names(), func(name string) bool { return slices.Contains(eachRun, name) }))

// without returns all combinations that are not among these.
func without(tried []combination) (all []combination) {
	for _, c := range places {
		for _, c.strategy = range strategies {
			if !slices.Contains(tried, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// combinations returns those that testTier tries, and those that restTier does. The first
// are those in eachRun on each single server and on ZooKeeper's ensemble; and of the other
// strategies each on one single server, and with each turn on the next. The others are on
// clusters: raced are those on single servers.
func combinations(service string, turn int) (first, later []combination) {
	for i, c := range places {
		if service != "" && service != c.service {
			continue
		}
		for j, s := range strategies {
			c.strategy = s
			always := j < len(eachRun) && (c.single() || c.service == "zookeeper")
			inTurn := j >= len(eachRun) && i == (turn+j)%turns // up to three are never on the same server
			switch {
			case always, inTurn:
				first = append(first, c)
			case !c.single():
				later = append(later, c)
			}
		}
	}
	return first, later
}

// raced are the combinations that restTier tries with the race detector.
func raced(service string, turn int) (all []combination) {
	for i, c := range places[:3] { // the single servers
		if service != "" && service != c.service {
			continue
		}
		raced := strategies[len(eachRun):]
		if service != "" || i == turn%turns {
			raced = strategies
		}
		for _, c.strategy = range raced {
			all = append(all, c)
		}
	}
	return all
}

// of leaves those on single servers, or those on clusters.
func of(all []combination, single bool) []combination {
	return slices.DeleteFunc(slices.Clone(all), func(c combination) bool { return c.single() != single })
}

// pattern picks them, as -run does.
func pattern(all []combination) string {
	var each []string
	for _, c := range all {
		each = append(each, "^"+strings.ReplaceAll(c.String(), "/", "$/^")+"$")
	}
	return strings.Join(each, "|")
}

const (
	// crowds are tests that start most servers, a dozen at once, on networks of their own or
	// to break them. Beside them whatever else waits for a server would wait for too long.
	crowds = "^Test(Deaths|Partitions|LostReplyAtADeposedLeader|RequestWaitsInAFollower|Campaigns|ElectorRun|RenewedByADeposedLeader|EnsembleOnNetwork|EtcdClusterOnNetwork|ConsulClusterOnNetwork)$"
	// hogs are those that try wrong backends on a server. Some take the processors away on purpose.
	hogs = "^Test(LosesSessions|StandsStill|LateMessagesAreFound)$"
	// clusters are the backends' tests on clusters, and what takes as much as one.
	clusters = "^Test(Controls|ConformanceEnsemble|ConformanceCluster|ConformanceNamespaced|" +
		"LeaderWithoutAQuorum|" + // ZooKeeper
		"FrozenMember|LeaderChange|LeaseOutlivesTheWindow|PausedMember|Pitfall25NoLeaderForAWhile|QuorumLost|WritesWhileLeadershipMoves|" + // etcd
		"CheckIsRemovedWithoutServers|CheckOfALostAgent|CheckOver.*|Checked.*|FrozenServer|Pitfall34NoHealthCheck|ServerLeaderChange)$" // Consul
	elections       = "^TestElectionOn(Servers|Clusters|ConsulClusters)$"
	electionsMemory = "^TestElection(OnMemory|OfAnotherMake)$"
	// onZooKeeper are the other tests of the suites' package that need a ZooKeeper server.
	onZooKeeper = "^Test(LeaderAndSuccessorDeletedAtOnce|OverTheEndOfZooKeepersNumbers)$"
	// longest are most of what the explorer computes: that what it leaves out is no loss, and
	// what has most orders.
	longest = "^Test(ReductionLosesNoState|SameStatesGoOnAlike|Designable|Transfer|MutantsThatShowLate)$"
)

// Rules on real servers mostly wait, so more of them run side by side than there are
// processors: most on one service's single server, without the race detector. A slow machine
// runs fewer.
const (
	many = 12
	more = 18
	most = 24
)

// computing are the packages that only compute. They come first, as a session is lost that
// nobody has a processor for in time. They run without the race detector: they look for
// wrong orders, not for races, and what they try runs under it on memory.
var computing = []string{"conformance/explore", "internal/mutants", "examples/deputy"}

// oneProcessor is for what has one goroutine go on at a time: more cost it a quarter of its speed.
var oneProcessor = []string{"-cpu=1"}

// tools are the packages that only those need who work on the library.
var tools = []string{
	"internal/bench", "internal/chaos",
	"internal/loopback", "internal/networktest", "internal/process", "internal/proxytest", "internal/servertest",
}

// fleets are the examples that are whole services, with processes on real servers.
var fleets = []string{"examples/controller", "examples/fastleader", "examples/replicas"}

// load has hundreds of candidates on one server, and some are lost beside other work.
const load = "internal/load"

// plan makes the stages of a tier. packages are those of the library's module, by their
// folders.
//
// The race detector more than doubles what the candidates of an election compute, so most
// elections run without it: on clusters, where most servers are, all of them. On single
// servers it has those that take turns everywhere, and with each turn the others on the next
// service. Whatever is on memory has it, and the backends' own tests.
//
// The first tier of one server is for whoever works on its backend, and waits: one call of go
// test, without the race detector, with all that waits side by side.
func plan(t tier, service string, turn int, packages []string) []stage {
	first, later := combinations(service, turn)
	var stages, rest []stage
	add := func(of tier, s stage) {
		s.tier, s.packages = of, concerned(s.packages, service)
		switch {
		case t != of && t != allTiers, len(s.packages) == 0:
		case of == testTier:
			stages = append(stages, s)
		default:
			rest = append(rest, s)
		}
	}
	// Without combinations go test would try all there is.
	elect := func(of tier, s stage) {
		s.packages = []string{"conformance"}
		if len(s.combinations) > 0 {
			add(of, s)
		}
	}
	backends := []string{"backend/zookeeper", "backend/etcd", "backend/consul"}
	crowded := []string{"internal/servertest", "internal/chaos", "backend/zookeeper", "backend/etcd"}
	others := slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		return slices.Contains(computing, p) || slices.Contains(tools, p) || slices.Contains(fleets, p) || p == load
	})
	left := []string{crowds, hogs, clusters}
	if service != "" && service != "memory" {
		left = append(left, electionsMemory)
	}
	if service != "" && service != "zookeeper" {
		left = append(left, onZooKeeper)
	}

	switch service {
	case "", "memory":
		add(testTier, stage{name: "explorer and mutants", usual: 90 * time.Second, packages: computing, args: oneProcessor, skip: longest})
		for _, m := range modules {
			if service == "memory" && slices.Contains(onServersToo, m) {
				continue
			}
			of := testTier
			if m == forReleases {
				of = restTier
			}
			add(of, stage{name: "module " + m, usual: cmp.Or(usual[m], 10*time.Second), module: m, race: true, packages: []string{"..."}, parallel: many})
		}
		add(testTier, stage{
			name: "packages; elections on memory", usual: 270 * time.Second, race: true,
			packages: others, parallel: many, programs: 4, skip: strings.Join(append(left, elections), "|"),
		})
		elect(testTier, stage{name: "elections on single servers", usual: 2 * time.Minute, parallel: more, combinations: of(first, true)})
		elect(testTier, stage{name: "elections on clusters", usual: 2 * time.Minute, parallel: many, combinations: of(first, false)})
	default:
		add(testTier, stage{
			name:     "packages and elections on " + service,
			usual:    2 * time.Minute,
			packages: others, parallel: most, programs: 4,
			skip:         strings.Join(left, "|"),
			combinations: first, amid: true,
		})
	}

	add(restTier, stage{name: "explorer, at length", usual: 5 * time.Minute, packages: computing[:1], args: oneProcessor, run: longest})
	add(restTier, stage{name: "examples with processes", usual: 2 * time.Minute, race: true, packages: fleets, parallel: many, programs: 2})
	add(restTier, stage{name: "tools", usual: 2 * time.Minute, race: true, packages: tools, parallel: many, programs: 4, skip: crowds})
	add(restTier, stage{name: "load", usual: time.Minute, race: true, packages: []string{load}, parallel: 1})
	elect(restTier, stage{name: "elections on single servers, for races", usual: 5 * time.Minute, race: true, parallel: many, combinations: raced(service, turn)})
	// Two packages at once: a rule that restarts three servers needs them back in time.
	add(restTier, stage{name: "backends on clusters", usual: 4 * time.Minute, race: true, packages: append(backends, "conformance"), parallel: many, programs: 2, run: clusters})
	add(restTier, stage{name: "networks and campaigns of faults", usual: 6 * time.Minute, race: true, packages: crowded, parallel: 3, programs: 2, run: crowds})
	if service == "" {
		add(restTier, stage{name: "void attempts", usual: 2 * time.Minute, packages: []string{"conformance"}, run: hogs})
	}
	elect(restTier, stage{name: "elections on clusters, the others", usual: 4 * time.Minute, parallel: more, combinations: later})

	// What a budget leaves out are the last ones, so those of the second tier take turns in that, too.
	if len(rest) > 0 {
		begin := turn % len(rest)
		rest = slices.Concat(rest[begin:], rest[:begin])
	}
	return append(stages, rest...)
}

// concerns are the packages that a service concerns, beside the suites: its backend, what starts
// it for the tests, and other packages with tests on it.
var concerns = map[string][]string{
	"memory":    {"backend/memory", "conformance/memtest"},
	"zookeeper": {"backend/zookeeper", "internal/zktest", "backend/dial", "strategy/kafka", "inspect", "lastwill"},
	"etcd":      {"backend/etcd", "internal/etcdtest", "backend/dial", "inspect", "lastwill"},
	"consul":    {"backend/consul", "internal/consultest", "backend/dial", "inspect", "lastwill"},
}

// concerned leaves those that a service concerns.
func concerned(packages []string, service string) []string {
	if service == "" {
		return packages
	}
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		return p != "conformance" && !strings.HasPrefix(p, "conformance/internal/") && !slices.Contains(concerns[service], p)
	})
}
