# The whole life of this repository: `make help` lists it. Every target works
# on a laptop as it does in CI.

GO ?= go
FUZZTIME ?= 4000x
SOAK ?= 10m
CHAOS ?= 100000
JOBS ?= 50000
# modules of their own, whose dependencies are nobody else's
MODULES = benchmarks/peers bridge/redisstreamtest retention/archive/arrowtest examples/totals examples/watermill

.DEFAULT_GOAL := help
.PHONY: help demo build test ci soak bench bench-peers bench-growth lint fmt tidy fuzz tools clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## install Valkey if it is missing, build, and run the main job on an embedded server
	scripts/setup
	@$(MAKE) --no-print-directory build
	bin/pipeline demo

build: ## build bin/pipeline
	$(GO) build -o bin/pipeline ./cmd/pipeline

test: ## install what the tests need, and run them all (on a Valkey and a Redis each; PIPELINE_TEST_SERVERS=all: on clusters of both as well)
	scripts/setup test
	$(GO) test -race -shuffle=on -timeout 19m -vet=off ./tier/stream ./consumer ./cmd/pipeline ./... # the longest ones first; lint vets
	$(GO) test -run TestReconnect ./bridge # Watermill's, which has a data race of its own
	$(GO) test -C bridge/redisstreamtest . # a module of its own, for the backend that it is compared with
	$(GO) test -C examples/watermill . # a module of its own, for what Watermill's components need
	$(GO) test -C retention/archive/arrowtest . # a module of its own, for a reader of Parquet that did not write it
	$(GO) test -C examples/totals . # a module of its own; SQLite takes minutes to compile with -race

ci: ## what CI runs: test (with the seeds of all fuzz targets), lint and tidy while tests wait, demo
	scripts/setup test
	@nice -n 19 $(MAKE) --no-print-directory lint tidy & $(MAKE) --no-print-directory test; tested=$$?; wait $$! && exit $$tested
	@$(MAKE) --no-print-directory demo

soak: ## faults at random while writers and consumers work: SOAK=10m, SOAK_SEED=n repeats an order; CHAOS=100000 messages of each order; JOBS=50000 jobs whose workers are killed
	scripts/setup test
	SOAK=$(SOAK) CHAOS=$(CHAOS) JOBS=$(JOBS) $(GO) test -race -count=1 -timeout 0 -v -run 'TestSoak|TestEachFault|TestChaos|TestJobsKilled' ./consumer/soak
	RETENTION_SOAK=60s $(GO) test -race -count=1 -timeout 0 -v -run TestOneReaderUnderFire ./retention
	PIPELINE_CHANGES=1000 $(GO) test -race -count=1 -timeout 0 -v -run TestPartitionedOwnership ./consumer

bench: ## against ceilings, in about three minutes, into benchmarks/REPORT.md and README.md
	scripts/setup
	@$(MAKE) --no-print-directory build
	$(GO) run ./benchmarks/report/run bench

bench-peers: ## against others, in about ten minutes, into the same; BENCH=Jobs|Watermill|Streams, MATCH=drain: those only, without the report; ROUNDS=3, PERSISTENCE=everysec
	scripts/setup peers
ifeq ($(BENCH)$(MATCH),)
	$(GO) run ./benchmarks/report/run peers
else
	$(GO) test -C benchmarks/peers -run xxx -bench '$(or $(BENCH),.)' -benchtime 1x -timeout 0 .
endif

bench-growth: ## what a message costs where there are more and more, up to ten million, in about four minutes and 4 GB, into the same
	scripts/setup
	@$(MAKE) --no-print-directory build
	$(GO) run ./benchmarks/report/run growth

lint: ## gofumpt, go vet, staticcheck
	@unformatted="$$($(GO) tool gofumpt -l .)" || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	for module in $(MODULES); do $(GO) vet -C $$module . || exit 1; done
	staticcheck="$$($(GO) tool -n staticcheck)" && for module in $(MODULES); do (cd $$module && "$$staticcheck" .) || exit 1; done

fmt: ## format the code
	$(GO) tool gofumpt -w .

tidy: ## check that go.mod says what the code needs
	$(GO) mod tidy -diff
	for module in $(MODULES); do $(GO) mod tidy -C $$module -diff || exit 1; done

fuzz: ## run every fuzz target FUZZTIME (4000x)
	FUZZTIME=$(FUZZTIME) scripts/fuzz

tools: ## install what the tests need: Valkey 8, Redis 7, a C compiler, Node 18
	scripts/setup test

clean: ## remove what was built
	rm -rf bin
