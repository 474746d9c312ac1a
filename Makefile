# make test     does its own set-up and runs everything, with the race detector; then
#               prints which rule held on which strategy and service
# make lint     gofmt, vet, staticcheck, go mod tidy
# make bench    prints the benchmarks of docs/performance.md; BENCH has other flags for it
# make setup    installs and builds what the tests need beyond Go: a ZooKeeper server,
#               an etcd server, a Consul server and the browser Chromium
# make compare  compares the strategies on memory, by cmd/elector; COMPARE has other flags for it
#
# The proofs of docs/proof.md, at length:
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
MODULES = . cmd/elector examples/fencing

# Modules without packages, whose go.mod name the servers that the tests build and run.
# They are not in go.work: one choice of versions for all would then build the library
# with versions that a server wants, and not with those of its own go.mod.
SERVERS = internal/servers/etcd internal/servers/consul

each = @ok=true; for m in $(1); do echo "$$m: $(2)"; (cd $$m && GOWORK=off $(2)) || ok=false; done; $$ok

.PHONY: test test-computing test-modules test-matrix lint bench compare fuzz load setup quickstart fencing mutants prove chaos

# Rules on real servers mostly wait, so more of them run side by side than there are
# processors.
TEST = -parallel 12 -timeout 20m

# A session is lost that nobody has a processor for in time. So those come first that only
# compute, and without the race detector: they look for wrong orders, not for races, and
# what they try runs under it on memory.
COMPUTING = conformance/explore internal/mutants
others = $(filter-out $(addprefix %/,$(COMPUTING)),$(shell GOWORK=off $(GO) list ./...))

# On clusters, too: there are most servers then, the detector more than doubles what the
# candidates take, and their code is no other than on memory and on one server.
CLUSTERS = ^TestElectionOn.*Clusters$$

# These start most servers, a dozen at once, on networks of their own or to break them. Beside
# them whatever else waits for a server would wait for too long. The last two take the
# processors away on purpose.
CROWDS = ^Test(Partitions|Campaigns|RenewedByADeposedLeader|EnsembleOnNetwork|EtcdClusterOnNetwork|ConsulClusterOnNetwork|LosesSessions|StandsStill)$$
CROWDED = ./backend/zookeeper ./backend/etcd ./internal/servertest ./internal/chaos ./conformance

# All is compiled first, and on the disk, lest the compiler and its files get in the way.
# What follows is tried whether or not what was before it failed.
test: setup
	$(call each,$(MODULES),$(GO) list -race -test -deps -export ./... >/dev/null)
	GOWORK=off $(GO) list -test -deps -export ./conformance $(COMPUTING:%=./%) >/dev/null
	GOWORK=off $(GO) test -race -run '^TestSteppedCandidate$$' ./internal/chaos
	sync
	@$(MAKE) --no-print-directory --keep-going --jobs=1 test-computing test-modules test-matrix

test-computing:
	GOWORK=off $(GO) test $(TEST) $(COMPUTING:%=./%)

test-modules:
	$(call each,$(filter-out .,$(MODULES)),$(GO) test -race $(TEST) ./...)

# The package that takes longest begins first, so that the others are done beside it. The
# last thing printed is the matrix of rules and combinations.
test-matrix:
	GOWORK=off $(GO) run ./internal/testmatrix -race $(TEST) -skip '$(CLUSTERS)|$(CROWDS)' ./conformance $(others) -- \
		-race -p 1 -parallel 3 -timeout 20m -run '$(CROWDS)' $(CROWDED) -- \
		$(TEST) -run '$(CLUSTERS)' ./conformance

# It has one candidate go on at a time, so more than one processor is of no use. It says
# how far it has got.
PROVE = 20m

prove:
	GOMAXPROCS=1 $(GO) test ./conformance/explore -run '^TestProve$$' -v -timeout 0 -explore.budget=$(PROVE)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(MODULES:%=./%/...) # through go.work
	$(call each,$(MODULES),$(GO) run $(STATICCHECK) ./...)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod tidy -diff)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod verify)

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

setup:
	@GO="$(GO)" sh scripts/setup.sh
