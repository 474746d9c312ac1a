# make test     does its own set-up and tries every rule on every service: ten minutes.
#               SERVICE=zookeeper, etcd, consul or memory tries what concerns that one.
#               Some combinations take turns; TURN=0, 1 or 2 says whose it is
# make test-all tries what that leaves out, too: clusters, networks, faults: an hour.
#               BUDGET=40m leaves out of that what would not end in 40 minutes, and says so
# make test-times prints what took longest in the last of these
# make lint     gofmt, vet, staticcheck, go mod tidy, whether go.work.sum is complete
# make bench    prints the benchmarks of docs/performance.md; BENCH has other flags for it
# make setup    installs and builds what the tests need beyond Go: a ZooKeeper server,
#               an etcd server, a Consul server, PostgreSQL, MariaDB, Prometheus, kazoo,
#               etcdctl, dig and the browser Chromium
# make doctor   shows which of that is there, in which version, and how to get what is missing
# make release VERSION=v0.1.0 tries a release out, and says how to publish it. TAG=1 makes
#               the tags; nothing is ever pushed. CONTRIBUTING.md has the steps
# make dist VERSION=v0.1.0 makes archives of the command for six platforms, in dist/
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
MODULES = . cmd/elector examples/fencing examples/recipes internal/fencetest adapter/gocron metrics/otel metrics/prometheus internal/release

# Modules without packages, whose go.mod name the servers that the tests build and run.
# They are not in go.work: one choice of versions for all would then build the library
# with versions that a server wants, and not with those of its own go.mod.
SERVERS = internal/servers/etcd internal/servers/consul

each = @ok=true; for m in $(1); do echo "$$m: $(2)"; (cd $$m && GOWORK=off $(2)) || ok=false; done; $$ok

.PHONY: test test-all test-times test-summary lint bench compare fuzz load setup doctor quickstart fencing mutants prove chaos release dist

# make ends what it has started when it is ended itself, and "go run" would not pass that on.
TESTRUN = GOWORK=off $(GO) build -o .test/testrun ./internal/testrun && exec .test/testrun
SETUP = GO="$(GO)" sh scripts/setup.sh

# A wrong SERVICE is refused before the minutes of a set-up: make expands all lines first.
SERVICES = memory zookeeper etcd consul
valid = $(if $(filter-out $(SERVICES),$(SERVICE)),$(error SERVICE=$(SERVICE): say one of $(SERVICES)))
tier = $(TESTRUN) $(if $(SERVICE),-service $(SERVICE)) $(if $(TURN),-turn $(TURN)) $(if $(BUDGET),-budget $(BUDGET))

test:
	@$(SETUP) $(SERVICE)
	@$(valid)$(tier) test

test-all:
	@$(SETUP) $(SERVICE)
	@$(valid)$(tier) all

# Of the last run: where its time went, and what go test said of each package.
test-times test-summary:
	@$(TESTRUN) $(@:test-%=%)

# It has one candidate go on at a time, so more than one processor is of no use. It says
# how far it has got.
PROVE = 20m

prove:
	GOMAXPROCS=1 $(GO) test ./conformance/explore -run '^TestProve$$' -v -timeout 0 -explore.budget=$(PROVE)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	@large=$$(git ls-files -z | xargs -0 sh -c 'find "$$@" -maxdepth 0 -size +1024k' sh); \
	if [ -n "$$large" ]; then echo "larger than 1 MB, so perhaps a program that was built:"; echo "$$large"; exit 1; fi
	$(GO) vet $(MODULES:%=./%/...) # through go.work
	$(call each,$(MODULES),$(GO) run $(STATICCHECK) ./...)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod tidy -diff)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod verify)
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

setup:
	@$(SETUP)

doctor:
	@GO="$(GO)" sh scripts/doctor.sh

RELEASE = cd internal/release && GOWORK=off $(GO) run .
version = $(or $(VERSION),$(error say VERSION=v0.1.0, or which it is))

release:
	$(RELEASE) $(if $(TAG),-tag) $(version)

dist:
	$(RELEASE) -dist "$(CURDIR)/dist" $(version)
