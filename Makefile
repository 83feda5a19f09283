# Each target is one thing that CONTRIBUTING.md tells you to do; the work itself
# is in Go. ARGS are passed on: make dev ARGS="--addr 127.0.0.1:8081".

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS     := internal/tools
GO_TOOL   := go tool -modfile=$(TOOLS)/go.mod
NODE_DONE := $(TOOLS)/node_modules/.package-lock.json
SPECMATIC := $(TOOLS)/specmatic/node_modules/specmatic/specmatic.jar
# The generators of clients are large, too.
GENERATORS := $(TOOLS)/generators/node_modules/.package-lock.json
# The tests run every target's seeds. To go beyond them compiles all that a package
# stands on once more, which is for the soak.
FUZZTIME  ?= 10s
FUZZED    ?= internal conformance
# Tests wait for services more than they compute.
PARALLEL  ?= 6
# The timeout is for each package, and for a machine many times slower than usual.
TEST      := -vet=off -parallel $(PARALLEL) -timeout 20m
# The linter takes the tests for as much code again; the soak has the time.
LINT_TESTS ?= false

# The packages with the most shared state. The race detector needs every dependency compiled
# again, which takes minutes, so only the soak uses it.
RACED := /internal/(account/(auth|billing|ratelimit)|component|execution(/callback)?|platform/(groupcommit|notify|sse|throttle)|web/server|workflow/(engine|run))$$

# Go runs a test again only if one of its dependencies has changed. The packages of PROGRAMS and
# LOAD depend on files that Go does not track, so they always run, one of each at a time: PROGRAMS
# start browsers and compilers, LOAD starts many processes of Weft.
PROGRAMS := ./conformance ./conformance/judges ./internal/web/portal ./internal/web/console
LOAD     := ./internal/program/chaos ./internal/program/cli ./internal/program/app ./internal/local/devdb ./gen
CACHED   := go list ./... | grep -vxF "$$(go list $(PROGRAMS) $(LOAD))"

# A checkout that belongs to another user stops Go from asking git for a version.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# The service needs no C compiler; the race detector does.
export CGO_ENABLED := 0

# The document that is promised: see its README.
RELEASED := conformance/released

.PHONY: help dev build version test cached programs load check lint prose vet static compiled race fuzz soak judges generators kills others chaos bench generate breaking changes released tools go clean

help:
	@echo "make dev       build and run Weft on a private PostgreSQL"
	@echo "make test      every test (the first time under 10 minutes)"
	@echo "make soak      the long tests, up to an hour"
	@echo "make judges    tests that Specmatic makes of openapi.yaml; it takes Java 17"
	@echo "make generators  generate clients from openapi.yaml with seven tools and test them"
	@echo "make chaos     kills and restarts under load at full size, checked by SQL"
	@echo "make bench     the figures, beside what the machine itself can do"
	@echo "make generate  the Go code made from openapi.yaml and queries/"
	@echo "make breaking  whether openapi.yaml breaks what is promised"
	@echo "make changes   what openapi.yaml changes since then"
	@echo "make released  keep openapi.yaml as that of the release"
	@echo "make tools     the Node tools that tests use"

go:
	@command -v go >/dev/null || { echo "Weft is built with Go 1.26 or later, and there is no go on the PATH: https://go.dev/dl/" >&2; exit 1; }
	@go list -m >/dev/null # says so if the Go that is there is too old

# The version of a build: the commit in a clone, a checksum of the sources elsewhere.
# safe.directory allows a checkout that belongs to another user.
VERSION ?= $(shell { test -e .git && git -c safe.directory='*' describe --tags --always --dirty --abbrev=12; } 2>/dev/null || \
	echo "source-$$(cat go.sum openapi.yaml $$(find cmd gen internal queries -name '*.go' -o -name '*.sql' | LC_ALL=C sort) | cksum | cut -d ' ' -f 1)")

version:
	@echo '$(VERSION)'

build: go
	@test -x bin/weft || echo "Building bin/weft. The first time takes minutes: what Weft stands on is downloaded and compiled."
	@go build -ldflags '-X github.com/weft-automation/weft/internal/program/app.stamp=$(VERSION)' -o bin/weft ./cmd/weft

dev: build
	@exec bin/weft dev $(ARGS)

# One phase after the other: compile, run the cached packages, run the others.
test: go
	@$(MAKE) --no-print-directory -j2 compiled lint
	@$(MAKE) --no-print-directory cached
	@$(MAKE) --no-print-directory -j2 programs load

check: lint vet static

lint: go $(NODE_DONE)
	@files=$$(gofmt -l cmd conformance gen internal); test -z "$$files" || { printf '%s\n' "$$files" "these files are not formatted: run gofmt -w" >&2; exit 1; }
	nice -n 19 npm --prefix $(TOOLS) run --silent lint

# Phrases that the writing style replaces: make prose ARGS="internal/workflow queries".
prose: go
	@nice -n 19 go run ./internal/program/prose $(ARGS)

vet: go
	nice -n 19 go vet ./...

# The export data of a package is the package compiled, so this compiles the tests too.
# It links nothing: the tests whose results Go has cached are not linked at all. GOGC saves a
# tenth of the compiler's time.
compiled: go
	GOGC=800 go list -test -export ./... >/dev/null

static: vet
	nice -n 19 $(GO_TOOL) staticcheck -tests=$(LINT_TESTS) ./...

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

# The kills wait much, for those that come back; the others compute meanwhile, except the
# conformance suite, which measures latencies. The random graphs use all processors.
SOAK := WEFT_SOAK=1 go test -count=1 -shuffle=on -timeout 40m

soak: compiled $(NODE_DONE) $(SPECMATIC) $(GENERATORS)
	@for program in java gcc pgbouncer; do PATH="$$PATH:/usr/sbin" command -v $$program >/dev/null || { echo "make soak needs $$program." >&2; exit 1; }; done
	$(SOAK) ./conformance
	$(MAKE) judges
	@$(MAKE) --no-print-directory -j2 kills others
	$(SOAK) ./internal/workflow/run
	$(MAKE) race
	$(MAKE) check LINT_TESTS=true
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

kills: go
	$(SOAK) ./internal/program/chaos

others: go
	$(SOAK) -p 1 $$(go list ./... | grep -vE '/(conformance|conformance/judges|internal/program/chaos|internal/workflow/run)$$')

chaos: go
	WEFT_SOAK=1 go test -count=1 -timeout 20m -v -parallel 2 -run 'TestEX(01|02|03|06|08|20)' ./internal/program/chaos | grep -v '^=== '

bench: build
	@bin/weft bench $(ARGS)

generate: go
	go generate ./gen

breaking: go
	@go test -vet=off -count=1 -run TestTheContractBreaksNothingThatIsPromised ./gen

changes: go
	@$(GO_TOOL) oasdiff changelog $(RELEASED)/openapi.yaml openapi.yaml --format markdown

# A step of each release, after info.version of openapi.yaml was raised.
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
	rm -rf bin
