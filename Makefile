# make test     does its own set-up and tries every rule, on one server of each service.
#               SERVICE=zookeeper, etcd, consul or memory tries what concerns that one.
#               SERVICE=kubernetes does all that test-all does for it, and builds an API
#               server, which takes ten minutes the first time. SERVICE=kerberos does it for
#               ZooKeeper with Kerberos, and installs a KDC
# make test-all tries all there is: clusters, networks that break, campaigns of faults,
#               databases, a browser, races on servers. It takes an hour
# make lint     gofmt, vet, staticcheck, go mod tidy, whether go.work.sum is complete
# make bench    prints the benchmarks of docs/performance.md; BENCH has other flags for it
# make setup    installs and builds what make test needs beyond Go: a ZooKeeper server,
#               an etcd server, a Consul server
# make setup-all does that for make test-all: PostgreSQL, MariaDB, Prometheus, kazoo,
#               etcdctl, a KDC, the browser Chromium and Kubernetes' API server, too
# make doctor   shows which of that is there, in which version, and how to get what is missing
# make release VERSION=v0.1.0 tries a release out, and says how to publish it. TAG=1 makes
#               the tags; nothing is ever pushed. docs/internals/maintain.md has the steps
# make dist VERSION=v0.1.0 makes archives of the command for six platforms, in dist/
# make compare  compares the strategies on memory, by cmd/elector; COMPARE has other flags for it
#
# The proofs of docs/internals/proof.md, at length:
#
# make mutants  prints which rules of the suites fail on which mutant
# make prove    explores every order of steps for as long as PROVE says, for each strategy
# make chaos    breaks real servers, links and candidates for minutes, and checks what the
#               candidates saw; CHAOS has other flags for it
# make fuzz     runs each fuzz target for FUZZTIME, 30s by default
# make load     thousands of candidates and of elections, on memory and on ZooKeeper; LOAD
#               has other flags for it

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Each has a go.mod of its own, and ./... does not lead from one into another. go.work
# ties them together for who works here; "each" builds every one by its own go.mod
# alone, as its users do.
TESTED = cmd/elector backend/kubernetes backend/nats backend/zookeeper/kerberos examples/fencing examples/recipes examples/webservice internal/fencetest \
	adapter/controllerruntime adapter/gocron metrics/otel metrics/prometheus
MODULES = . $(TESTED)

# Modules without packages, whose go.mod name the servers that the tests build and run.
# They are not in go.work: one choice of versions for all would then build the library
# with versions that a server wants, and not with those of its own go.mod.
BUILT = $(notdir $(patsubst %/go.mod,%,$(wildcard internal/servers/*/go.mod)))
SERVERS = $(BUILT:%=internal/servers/%)

# What only make test-all and SERVICE=kubernetes have built.
BUILT_LATE = kubernetes

# The services that have servers: all that is in backend/, except what serves every service, and modules.
SERVICES = $(filter-out dial driver memory meter register nats kubernetes,$(notdir $(patsubst %/,%,$(wildcard backend/*/))))

each = @ok=true; for m in $(1); do echo "$$m: $(2)"; (cd $$m && $(2)) || ok=false; done; $$ok

.PHONY: test test-memory test-backends test-elections test-served test-modules test-kubernetes test-kerberos $(SERVICES:%=test-%) \
	test-all all-memory all-explorer all-backends all-races all-clusters all-last all-rest all-modules \
	setup setup-packages setup-all setup-all-packages $(sort $(BUILT:%=setup-%) $(SERVICES:%=setup-%)) doctor \
	lint bench compare fuzz load quickstart fencing mutants prove chaos release dist

# The tests. "make -n test" prints the go test commands, which can be pasted.
#
# Those that need no server run on fake time, and Go remembers their results. On servers -count=1
# has each be tried: what is remembered tried nothing. There most tests wait, so PARALLEL run
# side by side. Vetting is the linters' part.

TEST = GOWORK=off $(GO) test -vet=off -timeout 60m
SHORT = $(TEST) -short
PARALLEL = 60
ON_SERVERS = -count=1 -parallel $(PARALLEL)

# What is in strategy/, except what needs a server.
STRATEGIES = $(filter-out ./strategy/kafka,$(patsubst %/,./%,$(wildcard strategy/*/)))

# Races are looked for in the library itself, so that not all is compiled twice.
RACED = . ./internal/asynclog ./backend ./backend/driver ./backend/memory ./backend/meter ./backend/zookeeper/internal/wire ./fence \
	./strategy $(STRATEGIES)
MEMORY = ./backend/register ./conformance/... ./internal/crowd ./internal/mutants ./internal/historyview ./internal/layout ./internal/measure ./examples/fastleader
BACKENDS = $(SERVICES:%=./backend/%) ./strategy/kafka
SERVED = ./backend/dial ./health ./inspect ./lastwill ./tlsfiles $(TOOLS) \
	./examples/controller ./examples/deputy ./examples/jobrunner ./examples/quickstart ./examples/remove ./examples/replicas ./examples/start
TOOLS = ./internal/bench ./internal/chaos ./internal/consultest ./internal/etcdclient ./internal/etcdtest ./internal/load ./internal/loopback \
	./internal/networktest ./internal/process ./internal/proxytest ./internal/servertest ./internal/services ./scripts

services = memory $(SERVICES)
named = $(services) kubernetes kerberos
service = $(if $(filter-out $(named),$(SERVICE))$(word 2,$(SERVICE)),$(error SERVICE=$(SERVICE): say one of $(named)),$(SERVICE))

# The servers take minutes to build, beside the tests that need none. Nothing runs beside the suites on
# servers: their sessions want a processor in time.
test:
	@$(if $(SERVICE),$(MAKE) --no-print-directory test-$(service),\
	ok=true; $(MAKE) --no-print-directory -k -j4 setup test-memory || ok=false; \
	$(MAKE) --no-print-directory -k READY=yes test-backends test-elections || ok=false; \
	$(MAKE) --no-print-directory -k READY=yes -j2 -O test-served test-modules || ok=false; $$ok)

ready = $(if $(READY),,setup)

test-memory: setup-packages
	$(SHORT) -race $(RACED)
	$(SHORT) -race -run '^TestMemory' ./internal/elections
	$(SHORT) -cpu 1 $(MEMORY)

# Four packages at once, with the race detector: with more tests at once a slow machine has no time for their sessions.
test-backends: PARALLEL = 32
test-backends: $(ready)
	$(SHORT) $(ON_SERVERS) -p 4 -race $(BACKENDS)

test-elections: $(ready)
	$(SHORT) $(ON_SERVERS) -skip '^TestMemory' ./internal/elections

test-served: $(ready)
	$(SHORT) $(ON_SERVERS) $(SERVED)

test-modules: $(ready)
	$(call each,$(TESTED),$(SHORT) $(ON_SERVERS) ./...)

# What concerns one service, without the race detector, and so more at once.
$(SERVICES:%=test-%): PARALLEL = 100
$(SERVICES:%=test-%): test-%: setup-%
	$(SHORT) $(ON_SERVERS) -skip '$(call of,$(filter-out $*,$(services)))' ./backend/$*/... ./internal/elections

# Without -short, which leaves out the tests on a real server.
test-kubernetes: setup-etcd setup-kubernetes
	$(call each,backend/kubernetes adapter/controllerruntime,$(TEST) -count=1 -parallel 12 ./...)

# The packages of setup-all have the KDC.
test-kerberos: setup-all-packages
	$(call each,backend/zookeeper/kerberos,$(TEST) -count=1 -parallel 12 ./...)

# The tests of services begin with their names.
of = (?i)^Test($(subst $(space),|,$(strip $(1))))
space = $(subst ,, )

# All there is, one after the other, the last two side by side: "make -k test-all" goes on after one that fails.
test-all: setup-all all-memory all-explorer all-backends all-races all-clusters all-last

all-memory: setup-all
	$(TEST) -race $(RACED) ./backend/register
	$(TEST) -race -run '^TestMemory' ./internal/elections

all-explorer:
	$(TEST) -cpu 1 $(MEMORY)

all-backends: setup-all
	$(TEST) -count=1 -parallel 12 -race $(BACKENDS)

all-races: setup-all
	$(TEST) -count=1 -parallel 24 -race -run '$(call of,$(SERVICES))$$' ./internal/elections

all-clusters: setup-all
	$(TEST) -count=1 -parallel 24 -skip '^TestMemory|$(call of,$(SERVICES))$$' ./internal/elections

# These mostly wait for sessions to end.
all-last: setup-all
	@$(MAKE) --no-print-directory -k -j2 -Oline all-rest all-modules

all-rest: setup-all
	$(TEST) -count=1 -parallel 12 -p 1 $(SERVED)

all-modules: setup-all
	$(call each,$(TESTED),$(TEST) -count=1 -parallel 12 ./...)

setup: setup-packages $(patsubst %,setup-%,$(filter-out $(BUILT_LATE),$(BUILT)))

setup-packages setup-all-packages $(BUILT:%=setup-%):
	@GO="$(GO)" sh scripts/setup.sh $(patsubst all-packages,all,$(@:setup-%=%))

# The other servers are packages.
$(patsubst %,setup-%,$(filter-out $(BUILT),$(SERVICES))): setup-packages

setup-all: setup-all-packages $(BUILT:%=setup-%)

# It has one candidate go on at a time, so more than one processor is of no use. It says
# how far it has got.
PROVE = 20m

prove:
	GOMAXPROCS=1 $(GO) test -p 1 ./conformance/explore ./backend/register -run '^TestProve$$' -v -timeout 0 -explore.budget=$(PROVE)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	@large=$$(git ls-files -z | xargs -0 sh -c 'find "$$@" -maxdepth 0 -size +1024k' sh); \
	if [ -n "$$large" ]; then echo "larger than 1 MB, so perhaps a program that was built:"; echo "$$large"; exit 1; fi
	$(GO) vet $(MODULES:%=./%/...) # through go.work
	$(call each,$(MODULES),GOWORK=off $(GO) run $(STATICCHECK) ./...)
	$(call each,$(MODULES) $(SERVERS),GOWORK=off $(GO) mod tidy -diff)
	$(call each,$(MODULES) $(SERVERS),GOWORK=off $(GO) mod verify)
	@GO="$(GO)" sh scripts/worksum.sh

bench: setup
	$(GO) run ./internal/bench $(or $(BENCH),-backend zookeeper,etcd,consul)

compare:
	$(GO) run ./cmd/elector compare $(COMPARE)

# What a target finds is kept in testdata/fuzz, where go test tries it from then on. Those
# with goroutines do not cover the same twice, so that to minimize takes all the time there is.
FUZZTIME ?= 30s

fuzz:
	@found=$$($(GO) test -list '^Fuzz' ./...) || { echo "$$found"; exit 1; }; \
	echo "$$found" | awk '/^Fuzz/ { names = names " " $$1 } /^ok/ { n = split(names, name); for (i = 1; i <= n; i++) print $$2, name[i]; names = "" }' | \
	while read -r package target; do \
		echo "$$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package </dev/null || exit 1; \
	done

load: setup
	$(GO) run ./internal/load $(LOAD)

mutants:
	$(GO) test -count=1 ./internal/mutants -run '^TestMutants$$' -v -args -table

chaos: setup
	$(GO) run ./internal/chaos $(or $(CHAOS),-minutes 2)

quickstart:
	$(GO) run ./examples/quickstart

fencing:
	$(GO) run ./examples/fencing

doctor:
	@GO="$(GO)" sh scripts/doctor.sh

version = $(or $(VERSION),$(error say VERSION=v0.1.0, or which it is))

release:
	@GO="$(GO)" sh scripts/release.sh $(version) $(if $(TAG),tag)

dist:
	@GO="$(GO)" sh scripts/dist.sh $(version) dist
