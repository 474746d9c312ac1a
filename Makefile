# make test   does its own set-up and runs everything, with the race detector
# make lint   gofmt, vet, staticcheck, go mod tidy
# make bench  prints the benchmarks of docs/performance.md
# make setup  installs what the tests need beyond Go: a ZooKeeper server

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Each has a go.mod of its own, and ./... does not lead from one into another. go.work
# ties them together for who works here; "each" builds every one by its own go.mod
# alone, as its users do.
MODULES = . examples/fencing
each = @for m in $(MODULES); do echo "$$m: $(1)"; (cd $$m && GOWORK=off $(1)) || exit 1; done

.PHONY: test lint bench setup quickstart fencing

# Rules on real servers mostly wait, so more of them run side by side than there are
# processors.
test: setup
	$(call each,$(GO) test -race -parallel 4 -timeout 20m ./...)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(MODULES:%=./%/...) # through go.work
	$(call each,$(GO) run $(STATICCHECK) ./...)
	$(call each,$(GO) mod tidy -diff)
	$(call each,$(GO) mod verify)

bench: setup
	$(GO) run ./internal/bench

quickstart:
	$(GO) run ./examples/quickstart

fencing:
	$(GO) run ./examples/fencing

setup:
	@sh scripts/setup.sh
