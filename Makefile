# Everything here needs Go and nothing else.
GO       ?= go
TOOL      = tools/run
PACKAGES  = ./... ./kube/... ./client/... ./informer/... ./informer/clientgo/... ./gaplesstest/processtest/...
FUZZTIME ?= 5s
SERVERS  ?= 100000
OPS      ?= 12000000
KILLS    ?= 1000
FAULTS   ?= 500
BENCH    ?= .
ATTACKS  ?= .
ETCDS    ?= v3.5.16 v3.5.35 v3.6.16
VERSION  ?=
PLATFORMS ?=

.PHONY: help build quick test race lint fmt tidy dist released fuzz servers simulate crash campaign attacks bench \
	bench-informer conformance compat suites check

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the program into bin/
	$(GO) build -o bin/gapless ./cmd/gapless

quick: lint ## Run what finds most mistakes soon: lint, and the short tests
	$(GO) test -short -vet=off work

test: ## Run the tests of the modules that are released
	$(GO) test work

race: ## Run them with the race detector, invariants checked, in random order
	$(GO) test -race -tags invariants -shuffle=on work

lint: ## Check formatting, vet, and run the linters
	@test -z "$$($(TOOL) gofumpt -l . | tee /dev/stderr)" || { echo "run: make fmt" >&2; exit 1; }
	$(GO) vet work
	$(TOOL) golangci-lint run $(PACKAGES)
	$(TOOL) actionlint -shellcheck= -pyflakes=

fmt: ## Format everything
	$(TOOL) gofumpt -w .

.PHONY: wrap
wrap: ## Break the lines of Go files that are longer than 130 columns
	tools/wrap

tidy: ## Bring every go.mod and go.sum up to date
	tools/tidy

dist: ## Make all files of a release in dist/ (VERSION=vX.Y.Z: the tag of this commit; PLATFORMS=linux/amd64,…)
	cd tools/dist && $(GO) run . -out ../../dist -version '$(VERSION)' -platforms '$(PLATFORMS)'

released: ## Make a release in a clone, and use it as its users will
	.ci/released

fuzz: ## Fuzz every decoder for FUZZTIME each (5s)
	GO=$(GO) FUZZTIME=$(FUZZTIME) .ci/fuzz

servers: ## Play SERVERS (100000) scripted servers against the informer, from a new seed each time
	$(GO) test -count=1 -timeout 60m ./informer -run TestScriptedServers -servers $(SERVERS)

simulate: ## Play OPS (12 million) operations of the log over a simulated disk, and every crash point twice (SIMFLAGS='-seed N')
	$(GO) test -count=1 -v -timeout 4h ./internal/store/revlog/simulation -run 'TestSimulation$$' -ops $(OPS) $(SIMFLAGS)
	$(GO) test -count=1 -v -timeout 1h ./internal/store/revlog/simulation -run TestEveryCrashPoint -all

crash: ## Kill the program KILLS (1000) times under load, and check that nothing acknowledged is lost (CRASHFLAGS=-seed=N)
	cd conformance/crash && $(GO) run ./cmd/crash -kills $(KILLS) $(CRASHFLAGS)

campaign: ## Let FAULTS (500) things fail in three replicas over three members of etcd, and check what clients see (CAMPAIGNFLAGS=-seed=N)
	cd conformance/replicas/campaign && $(GO) test -count=1 -v -timeout 6h -faults $(FAULTS) -for 0 $(CAMPAIGNFLAGS)

attacks: ## Play attacks (ATTACKS, all of them) on the program, and print what they cost a well-behaved client
	cd conformance/attacks && $(GO) run ./cmd/attacks -run '$(ATTACKS)'

bench: ## Play the work BENCH against gapless and upstream, and print how they compare
	cd bench && $(GO) run ./cmd/bench --run '$(BENCH)' $(BENCHFLAGS)

bench-informer: ## Measure the informer's runs BENCH beside client-go's, and print how they compare
	cd bench && $(GO) build -o ../bin/bench-informer ./informer && ../bin/bench-informer -run '$(BENCH)' $(BENCHFLAGS)

.PHONY: bench-growth
bench-growth: ## Measure how costs grow with what a server holds (half an hour; BENCH: the dimensions), and print the page
	cd bench && $(GO) run ./cmd/growth --run '$(BENCH)' $(BENCHFLAGS)

conformance: ## Run the stores through their suite, and the server against upstream (FULL=-full: minutes more)
	$(GO) test -count=1 ./internal/store/...
	cd conformance/oracle && $(GO) test -count=1 ./...
	cd conformance/upstream && $(GO) test -count=1 -v -tags invariants ./...
	cd conformance/etcdstore && $(GO) test -count=1 -v .
	cd conformance/integration && $(GO) test -count=1 -v -timeout 30m .
	cd conformance/members && $(GO) test -count=1 -v .
	cd conformance/replicas && $(GO) test -count=1 -v .
	cd conformance/correctness && GOTOOLCHAIN=auto $(GO) test -count=1 -v -tags invariants ./...
	cd conformance/differential && $(GO) test -count=1 ./compare ./play ./script && $(GO) test -count=1 -v -timeout 20m . $(FULL)
	cd conformance/apiserver && $(GO) test -count=1 -v .
	cd conformance/builtin && $(GO) test -count=1 -v .
	cd conformance/monitoring && $(GO) test -count=1 -v .
	cd conformance/definitions && $(GO) test -count=1 -v .
	cd conformance/integration && $(GO) test -count=1 -v .

.PHONY: etcds
etcds: ## Run the store over etcd, and replicas over its members, with the versions ETCDS of etcd
	for version in $(ETCDS); do \
		TEST_ETCD=$$(tools/etcd $$version) && export TEST_ETCD && \
		for suite in etcdstore members replicas; do (cd conformance/$$suite && $(GO) test -count=1 .) || exit 1; done || exit 1; \
	done

compat: ## Run real clients in Go, Java, JavaScript, Python and Rust, new and old, Helm, and suites of client-go and controller-runtime
	cd compat/kubectl && $(GO) test -count=1 ./...
	cd compat/controllers && $(GO) test -count=1 -v ./...
	cd compat/operators && $(GO) test -count=1 -v ./...
	cd compat/helm && $(GO) test -count=1 -v ./...
	cd compat/clientgo && $(GO) test -count=1 -v ./...
	cd compat/clientgo022 && $(GO) test -count=1 -v ./...
	cd compat/informer && $(GO) test -count=1 -v ./...
	cd compat/controllerruntime && $(GO) test -count=1 -v ./...
	cd compat/conformance && $(GO) test -count=1 -v ./...
	cd compat/suites && $(GO) test -count=1 -v ./...
	cd compat/fabric8 && $(GO) test -count=1 -v ./...
	cd compat/java && $(GO) test -count=1 -v ./...
	cd compat/node && $(GO) test -count=1 -v ./...
	cd compat/dashboard && $(GO) test -count=1 -v ./...
	cd compat/python && $(GO) test -count=1 -v ./...
	cd compat/kubers && $(GO) test -count=1 -v -timeout 20m ./...

suites: ## Run suites of controller-runtime, cluster-api, karpenter and others on gapless and on kube-apiserver, and write how they compare
	cd compat/suites && $(GO) test -count=1 -v -timeout 3h -run TestSuites -all -update

check: quick ## Run what must pass before a change is handed in, without compat: quick, and if that passes, test, race and fuzz
	$(MAKE) test race fuzz
