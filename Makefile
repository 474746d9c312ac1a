# make test   does its own set-up and runs everything, with the race detector
# make lint   gofmt, vet, staticcheck, go mod tidy
# make bench  prints the benchmarks of docs/performance.md
# make setup  installs what the tests need beyond Go: a ZooKeeper server

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: test lint bench setup quickstart

test: setup
	$(GO) test -race -timeout 20m ./...

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	$(GO) mod verify

bench: setup
	$(GO) run ./internal/bench

quickstart:
	$(GO) run ./examples/quickstart

setup:
	@sh scripts/setup.sh
