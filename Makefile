# Each target is a task described in CONTRIBUTING.md; the work itself is in Go. ARGS are passed on:
# make dev ARGS="--addr 127.0.0.1:8180".

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS     := internal/tools
GO_TOOL   := go tool -modfile=$(TOOLS)/go.mod
NODE_DONE := $(TOOLS)/node_modules/.package-lock.json
SPECMATIC := $(TOOLS)/specmatic/node_modules/specmatic/specmatic.jar
# The client generators are a large download as well.
GENERATORS := $(TOOLS)/generators/node_modules/.package-lock.json
# The tests run the seeds of every fuzz target. Fuzzing recompiles all dependencies of a package, so
# only the soak does that.
FUZZTIME  ?= 10s
FUZZED    ?= internal conformance
# Tests mostly wait for services.
PARALLEL  ?= 6
# The timeout applies to each package, and allows for a machine many times slower than usual.
TEST      := -vet=off -parallel $(PARALLEL) -timeout 20m
# Linting the tests doubles the time of the linter, so only the soak does that.
LINT_TESTS ?= false

# The packages with the most shared state. The race detector recompiles every dependency, which takes
# minutes, so only the soak uses it.
RACED := /internal/(account/(auth|billing|ratelimit)|component|execution(/callback)?|platform/(groupcommit|notify|sse|throttle)|web/server|workflow/(engine|run))$$

# Go caches a test result until one of the package's dependencies changes. The packages of PROGRAMS
# and LOAD depend on files that Go does not track, so they always run, one package of each list at a
# time: PROGRAMS start browsers and compilers, LOAD starts many Weft processes.
PROGRAMS := ./conformance ./conformance/judges ./internal/web/portal ./internal/web/console ./internal/web/settings
LOAD     := ./internal/program/chaos ./internal/program/cli ./internal/program/app ./internal/local/devdb ./gen
# The slowest ones of the other packages start first, so that neither runs alone at the end.
CACHED   := echo ./internal/workflow/run ./internal/execution; go list ./... | grep -vxF "$$(go list $(PROGRAMS) $(LOAD))"

# In a checkout that belongs to another user, Go cannot ask git for a version.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# The service does not need a C compiler; the race detector does.
export CGO_ENABLED := 0

# The released document; see its README.
RELEASED := conformance/released

help:
	@echo "make dev       build and run Weft on a private PostgreSQL"
	@echo "make dist      archives, Debian and npm packages, a Helm chart and checksums, in dist/"
	@echo "make test      every test (the first time 10 to 20 minutes on 2 cores)"
	@echo "make soak      the long tests in parts, such as soak-kills; skips parts that passed at this commit"
	@echo "make judges    tests that Specmatic makes of openapi.yaml; it takes Java 17"
	@echo "make generators  generate clients from openapi.yaml with seven tools and test them"
	@echo "make bench     measure Weft relative to what the machine can do"
	@echo "make generate  the Go code made from openapi.yaml and queries/"
	@echo "make breaking  whether openapi.yaml breaks what is promised"
	@echo "make changes   what openapi.yaml changes since then"
	@echo "make released  keep openapi.yaml as that of the release"
	@echo "make tools     the Node tools that tests use"

go:
	@command -v go >/dev/null || { echo "Weft is built with Go 1.26 or later, and there is no go on the PATH: https://go.dev/dl/" >&2; exit 1; }
	@go list -m >/dev/null # fails if the installed Go is too old

# The version of a build: the commit in a clone, otherwise a checksum of the sources.
# safe.directory allows a checkout that belongs to another user.
VERSION ?= $(shell { test -e .git && git -c safe.directory='*' describe --tags --always --dirty --abbrev=12; } 2>/dev/null || \
	echo "source-$$(cat go.sum openapi.yaml $$(find cmd gen internal queries -name '*.go' -o -name '*.sql' | LC_ALL=C sort) | cksum | cut -d ' ' -f 1)")

version:
	@echo '$(VERSION)'

build: go
	@test -x bin/weft || echo "Building bin/weft. The first time takes minutes, because the dependencies are downloaded and compiled."
	@go build -ldflags '-X github.com/weft-automation/weft/internal/program/app.stamp=$(VERSION)' -o bin/weft ./cmd/weft

# Two runs of the same commit with the same Go release write the same bytes.
DIST_EPOCH ?= $(shell git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 315532800)

dist: go
	@go run ./internal/program/dist -version '$(VERSION)' -epoch $(DIST_EPOCH) $(ARGS)
	@cat dist/SHA256SUMS

dev: build
	@exec bin/weft dev $(ARGS)

# The phases run one after the other: compile, run the cached packages, run the others.
test: go
	@$(MAKE) --no-print-directory -j2 compiled lint
	@$(MAKE) --no-print-directory cached
	@$(MAKE) --no-print-directory -j2 programs load

check: lint vet static

lint: prose $(NODE_DONE)
	@files=$$(gofmt -l cmd conformance gen internal); test -z "$$files" || { printf '%s\n' "$$files" "these files are not formatted: run gofmt -w" >&2; exit 1; }
	npm --prefix $(TOOLS) run --silent lint

# Phrases that the style guide replaces: make prose ARGS="internal/workflow queries".
prose: go
	@go run ./internal/program/prose $(ARGS)

vet: go
	go vet ./...

# Listing the export data compiles all packages and their tests. It links nothing, because tests with
# cached results need no linking. GOGC=800 reduces the compile time by a tenth.
compiled: go
	GOGC=800 go list -test -export ./... >/dev/null

static: vet
	$(GO_TOOL) staticcheck -tests=$(LINT_TESTS) ./...

race: go
	CGO_ENABLED=1 go test -race $(TEST) $$(go list ./... | grep -E '$(RACED)')

cached: go $(NODE_DONE)
	go test $(TEST) -p 2 $$($(CACHED))

programs: go $(NODE_DONE)
	go test $(TEST) -p 1 -count=1 $(PROGRAMS)

load: go $(NODE_DONE)
	go test $(TEST) -p 1 -count=1 $(LOAD)

fuzz: go
	@grep -rHoE '^func Fuzz\w+' --include='*_test.go' $(FUZZED) | while IFS=: read -r file name; do \
		go test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" </dev/null; \
	done

# The soak runs every test at its full size, in parts that aim at 20 minutes or less. `make soak` runs
# them in this order, and skips those that have passed at this commit.
SOAK       := WEFT_SOAK=1 go test -count=1 -shuffle=on -timeout 30m
SOAK_PARTS := conform judges generators kills operations graphs cron platform services packages pages plain race lint fuzz
SOAK_DONE   = .soak/$(shell git rev-parse --verify HEAD 2>/dev/null)
FIGURES    := grep -vE '^ *(===|--- PASS)' # removes the names of passed tests, and keeps what they log

soak: compiled
	@for part in $(SOAK_PARTS); do \
		if test -e $(SOAK_DONE)/$$part; then echo "soak-$$part: passed at this commit"; continue; fi; \
		started=$$(date +%s); echo "soak-$$part: started"; \
		$(MAKE) --no-print-directory soak-$$part; \
		echo "soak-$$part: passed in $$(( $$(date +%s) - started )) s"; \
		test -n "$$(git status --porcelain 2>&1)" || { mkdir -p $(SOAK_DONE); touch $(SOAK_DONE)/$$part; }; \
	done

soak-conform: go $(NODE_DONE)
	$(SOAK) -v -skip '^TestGeneratedClients' ./conformance | $(FIGURES)

soak-judges: judges

soak-generators: generators

# Processes are killed, and services fail.
soak-kills: go
	$(SOAK) -v -run '^Test(EX|CB|LE|AU11|SS)' ./internal/program/chaos | $(FIGURES)

# Upgrades, failover, restores, poolers and hostile tenants.
soak-operations: go
	@for program in gcc pgbouncer; do PATH="$$PATH:/usr/sbin" command -v $$program >/dev/null || { echo "make soak-operations needs $$program." >&2; exit 1; }; done
	$(SOAK) -v -run '^Test(OP|MT|AU14|Hostile|Checker|Ledger)' ./internal/program/chaos | $(FIGURES)

soak-graphs: go
	$(SOAK) -v ./internal/workflow/run ./internal/component/graph | $(FIGURES)

soak-cron: go
	$(SOAK) -v ./internal/kit/cron | $(FIGURES)

soak-platform: go
	$(SOAK) -p 1 $$(go list ./internal/kit/... ./internal/platform/... ./internal/secret/... ./internal/account/... | grep -v '/kit/cron$$')

soak-services: go $(NODE_DONE)
	$(SOAK) -p 1 -skip Lighthouse $$(go list ./gen/... ./conformance/... ./internal/component/... ./internal/execution/... ./internal/workflow/... ./internal/web/... ./internal/local/... ./internal/program/... | \
		grep -vE '/(conformance|conformance/judges|internal/program/(chaos|dist)|internal/workflow/run|internal/component/graph)$$')

# The packages of users are built, installed, upgraded and removed in a folder.
soak-packages: go
	@for program in dpkg npm pg_dump systemd-analyze systemd-sysusers; do command -v $$program >/dev/null || { echo "make soak-packages needs $$program." >&2; exit 1; }; done
	@test "$$(id -u)" = 0 || { echo "make soak-packages installs a package and runs it as its user: run it as root." >&2; exit 1; }
	$(SOAK) -v ./internal/program/dist | $(FIGURES)

soak-pages: $(NODE_DONE)
	npm --prefix $(TOOLS)/lighthouse ci --silent
	$(SOAK) -v -run Lighthouse ./internal/web/portal | $(FIGURES)

# On a PostgreSQL with the default settings of its distribution.
soak-plain: build
	.ci/plain-postgres go test $(TEST) -p 1 -count=1 ./internal/platform/... ./internal/execution/... ./internal/workflow/...
	.ci/plain-postgres sh -c 'go run ./internal/program/bench --only P1,P2,P6,P10 --database-url "$$WEFT_TEST_DATABASE_URL"'

soak-race: race

soak-lint:
	$(MAKE) check LINT_TESTS=true

soak-fuzz:
	$(MAKE) fuzz FUZZTIME=5s

judges: go $(NODE_DONE) $(SPECMATIC)
	@command -v java >/dev/null || { echo "Specmatic runs on Java 17 or later, and there is no java on the PATH." >&2; exit 1; }
	SPECMATIC_JAR=$(abspath $(SPECMATIC)) go test $(TEST) -count=1 ./conformance/judges

$(SPECMATIC): $(TOOLS)/specmatic/package-lock.json | $(NODE_DONE)
	cd $(TOOLS)/specmatic && npm ci --no-audit --no-fund
	@touch $@

generators: go $(NODE_DONE) $(GENERATORS)
	$(SOAK) -run TestGeneratedClients ./conformance

$(GENERATORS): $(TOOLS)/generators/package-lock.json | $(NODE_DONE)
	cd $(TOOLS)/generators && npm ci --no-audit --no-fund
	@touch $@

bench: go
	@go run -ldflags '-X github.com/weft-automation/weft/internal/program/app.stamp=$(VERSION)' ./internal/program/bench $(ARGS)

generate: go
	go generate ./gen

breaking: go
	@go test -vet=off -count=1 -run TestTheContractBreaksNothingThatIsPromised ./gen

changes: go
	@$(GO_TOOL) oasdiff changelog $(RELEASED)/openapi.yaml openapi.yaml --format markdown

# Part of each release, after info.version of openapi.yaml was raised.
released: breaking
	@version=$$(sed -n 's/^  version: //p' openapi.yaml); notes=$(RELEASED)/$$version.md; \
		test ! -e "$$notes" || { echo "$$notes is there already: raise info.version in openapi.yaml" >&2; exit 1; }; \
		$(MAKE) --no-print-directory changes > "$$notes"; \
		cp openapi.yaml $(RELEASED)/openapi.yaml; echo "$$notes"

tools: $(NODE_DONE)

$(NODE_DONE): $(TOOLS)/package-lock.json
	@command -v npm >/dev/null || { echo "The tests use Node tools, and there is no npm on the PATH: install Node 20 or later." >&2; exit 1; }
	cd $(TOOLS) && npm ci --no-audit --no-fund
	@touch $@

clean:
	rm -rf bin dist

.PHONY: help dev build dist version test cached programs load check lint prose vet static compiled race fuzz soak $(SOAK_PARTS:%=soak-%) judges generators bench generate breaking changes released tools go clean
