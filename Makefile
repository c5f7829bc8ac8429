# Everything here needs Go and nothing else.
GO       ?= go
TOOL      = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 5s
SERVERS  ?= 100000
BENCH    ?= .

.PHONY: help build test race lint fmt fuzz servers bench bench-informer conformance compat check

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the program into bin/
	$(GO) build -o bin/gapless ./cmd/gapless

test: ## Run the tests of the core module
	$(GO) test ./...

race: ## Run them with the race detector, invariants checked, in random order
	$(GO) test -race -tags invariants -shuffle=on ./...

lint: ## Check formatting, vet, and run the linters
	@test -z "$$($(TOOL) gofumpt -l . | tee /dev/stderr)" || { echo "run: make fmt" >&2; exit 1; }
	$(GO) vet ./...
	$(TOOL) golangci-lint run ./...

fmt: ## Format everything
	$(TOOL) gofumpt -w .

fuzz: ## Fuzz every decoder for FUZZTIME each (5s)
	GO=$(GO) FUZZTIME=$(FUZZTIME) .ci/fuzz

servers: ## Play SERVERS (100000) scripted servers against the informer, from a new seed each time
	$(GO) test -count=1 -timeout 60m ./informer -run TestScriptedServers -servers $(SERVERS)

bench: ## Play the work BENCH against gapless and upstream, and print how they compare
	cd bench && $(GO) run ./cmd/bench --run '$(BENCH)' $(BENCHFLAGS)

bench-informer: ## Measure the informer's runs BENCH beside client-go's, and print how they compare
	cd bench/informer && $(GO) build -o ../../bin/bench-informer . && ../../bin/bench-informer -run '$(BENCH)' $(BENCHFLAGS)

conformance: ## Run the stores through their suite, and the server against upstream (FULL=-full: minutes more)
	$(GO) test -count=1 ./internal/store/...
	cd conformance/oracle && $(GO) test -count=1 ./...
	cd conformance/upstream && $(GO) test -count=1 -v -tags invariants ./...
	cd conformance/correctness && GOTOOLCHAIN=auto $(GO) test -count=1 -v -tags invariants ./...
	cd conformance/differential && $(GO) test -count=1 ./compare ./play ./script && $(GO) test -count=1 -v -timeout 20m . $(FULL)

compat: ## Run real kubectl, client-go and fabric8, new and old, against the built program
	cd compat/kubectl && $(GO) test -count=1 ./...
	cd compat/clientgo && $(GO) test -count=1 -v ./...
	cd compat/clientgo022 && $(GO) test -count=1 -v ./...
	cd compat/informer && $(GO) test -count=1 -v ./...
	cd informer/clientgo && $(GO) test -count=1 ./...
	cd compat/controllerruntime && $(GO) test -count=1 -v ./...
	cd compat/fabric8 && $(GO) test -count=1 -v ./...

check: lint test race fuzz ## Run what must pass before a change is handed in, without compat
