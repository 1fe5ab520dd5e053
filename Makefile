# The whole life of this repository: `make help` lists it. Every target works
# on a laptop as it does in CI.

GO ?= go
FUZZTIME ?= 20000x
SOAK ?= 10m
CHAOS ?= 100000

.DEFAULT_GOAL := help
.PHONY: help demo build test ci soak lint fmt tidy fuzz tools clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## install Valkey if it is missing, build, and run the main job on an embedded server
	scripts/setup
	@$(MAKE) --no-print-directory build
	bin/pipeline demo

build: ## build bin/pipeline
	$(GO) build -o bin/pipeline ./cmd/pipeline

test: ## install what the tests need, and run them all
	scripts/setup test
	$(GO) test -race -shuffle=on -timeout 19m ./tier/stream ./consumer ./... # the longest ones first
	$(GO) test -C examples/totals . # a module of its own; SQLite takes minutes to compile with -race

ci: ## what CI runs: lint, tidy, test, fuzz, demo
	scripts/setup test
	@$(MAKE) --no-print-directory lint tidy
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory demo

soak: ## faults at random while writers and consumers work: SOAK=10m, SOAK_SEED=n repeats an order; CHAOS=100000 messages of each order
	scripts/setup test
	SOAK=$(SOAK) CHAOS=$(CHAOS) $(GO) test -race -count=1 -timeout 0 -v -run 'TestSoak|TestChaos' ./consumer/soak
	PIPELINE_CHANGES=1000 $(GO) test -race -count=1 -timeout 0 -v -run TestPartitionedOwnership ./consumer

lint: ## gofumpt, go vet, staticcheck
	@unformatted="$$($(GO) tool gofumpt -l .)" || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) vet -C examples/totals .
	staticcheck="$$($(GO) tool -n staticcheck)" && cd examples/totals && "$$staticcheck" .

fmt: ## format the code
	$(GO) tool gofumpt -w .

tidy: ## check that go.mod says what the code needs
	$(GO) mod tidy -diff
	$(GO) mod tidy -C examples/totals -diff

fuzz: ## run every fuzz target FUZZTIME (20000x)
	FUZZTIME=$(FUZZTIME) scripts/fuzz

tools: ## install what the tests need: Valkey 8, Redis 7, a C compiler, Node 18
	scripts/setup test

clean: ## remove what was built
	rm -rf bin
