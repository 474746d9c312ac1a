# make test   does its own set-up and runs everything, with the race detector; then
#             prints which rule held on which strategy and service
# make lint   gofmt, vet, staticcheck, go mod tidy
# make bench  prints the benchmarks of docs/performance.md; BENCH has other flags for it
# make chaos  breaks real servers, links and candidates for minutes, and checks what the
#             candidates saw; CHAOS has other flags for it: docs/proof.md
# make setup  installs and builds what the tests need beyond Go: a ZooKeeper server,
#             an etcd server and a Consul server

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Each has a go.mod of its own, and ./... does not lead from one into another. go.work
# ties them together for who works here; "each" builds every one by its own go.mod
# alone, as its users do.
MODULES = . examples/fencing

# Modules without packages, whose go.mod name the servers that the tests build and run.
# They are not in go.work: one choice of versions for all would then build the library
# with versions that a server wants, and not with those of its own go.mod.
SERVERS = internal/servers/etcd internal/servers/consul

each = @for m in $(1); do echo "$$m: $(2)"; (cd $$m && GOWORK=off $(2)) || exit 1; done

.PHONY: test lint bench chaos setup quickstart fencing

# Rules on real servers mostly wait, so more of them run side by side than there are
# processors. The last thing printed is the matrix of rules and combinations.
TEST = -race -parallel 12 -timeout 20m ./...

test: setup
	$(call each,$(filter-out .,$(MODULES)),$(GO) test $(TEST))
	GOWORK=off $(GO) run ./internal/testmatrix $(TEST)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(MODULES:%=./%/...) # through go.work
	$(call each,$(MODULES),$(GO) run $(STATICCHECK) ./...)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod tidy -diff)
	$(call each,$(MODULES) $(SERVERS),$(GO) mod verify)

bench: setup
	$(GO) run ./internal/bench $(or $(BENCH),-backend zookeeper,etcd,consul)

chaos: setup
	$(GO) run ./internal/chaos $(or $(CHAOS),-minutes 2)

quickstart:
	$(GO) run ./examples/quickstart

fencing:
	$(GO) run ./examples/fencing

setup:
	@GO="$(GO)" sh scripts/setup.sh
