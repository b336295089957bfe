# Everything a contributor or the gate runs, by name. Each target works on every module of the repository.
# The tools are built once, from the versions pinned in tools/go.mod and here, into .bin/.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

FUZZTIME     ?= 2m
STRESS_COUNT ?= 20
RACE_COUNT   ?= 1
BENCH        ?= .
ROUNDS       ?= 10
SYSTEMS      ?= windows/amd64 darwin/arm64 linux/386

# As a tool of tools/go.mod, golangci-lint would add 230 modules to it, and they would decide the versions of the others.
GOLANGCI   = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER = github.com/goreleaser/goreleaser/v2@v2.12.7
PACKAGING  = cmd/sluice/packaging/goreleaser.yaml

CODE = $(shell .ci/modules -code)
ALL  = $(shell .ci/modules)

# What users import. It builds with OLDEST.
OLDEST  = go1.25.5
LIBRARY = . grpclimit redislimit redislimit/goredis redislimit/rueidis resilience/failsafe telemetry

# The race detector makes each program, and each package's tests, wait for a second at the end.
export GORACE ?= atexit_sleep_ms=10

# pairs runs a command in each module, two modules at a time, as many tests wait more than they compute. For the same reason go test
# runs more packages at once than there are CPUs.
pairs = printf '%s\n' $(1) | xargs -P 2 -I MODULE bash -c 'out=$$(cd MODULE && $(2) 2>&1); code=$$?; printf "module MODULE\n%s\n" "$$out"; exit $$code'

each = for module in $(1); do echo "module $$module"; (cd "$$module" && $(2)) || exit 1; done

.PHONY: help all tools build cross vet lint lint-config fmt fmt-check test test-cpus test-32 race stress fuzz bench bench-commands numbers plots examples tidy tidy-check verify release-check release browser envoy playground-picture go125 vulncheck packages ci nightly

all: build lint test

## help: what there is to make
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST) | awk -F ': ' '{ printf "%-12s %s\n", $$1, substr($$0, length($$1) + 3) }'

## tools: build the pinned tools into .bin/
tools:
	@cd tools && go build -trimpath -o ../.bin/ tool
	@GOBIN=$(CURDIR)/.bin go install -trimpath $(GOLANGCI)

## build: compile every package, with VARIANT=-race for the race detector
build:
	@$(call each,$(CODE),go build $(VARIANT) -o /dev/null ./...)

## cross: compile and vet the library and the command for SYSTEMS, tests included: where words are 32 bits wide and where the system is another
cross:
	@for system in $(SYSTEMS); do for module in . cmd/sluice; do \
		echo "$$system $$module"; GOOS=$${system%/*} GOARCH=$${system#*/} go -C "$$module" vet ./... || exit 1; \
	done; done

## test-32: the library's tests with words of 32 bits (the machine must run 386 binaries, as amd64 does)
test-32:
	CGO_ENABLED=0 GOARCH=386 go test -vet=off -p 4 $$(go list ./... | grep -v /examples/)

## test-cpus: the library's tests with 1 and 16 CPUs, where there is more than one goroutine
test-cpus:
	go test -cpu=1,16 -p 4 $$(go list ./... | grep -v -e /examples/ -e /internal/calendar -e /internal/fair)

## vet: go vet
vet:
	@$(call each,$(CODE),go vet ./...)

# Less collecting of garbage is a third of the time, and 1 GB of memory.
## lint: golangci-lint, by .golangci.yml
lint: tools
	@$(call each,$(CODE),GOFLAGS="$${GOFLAGS:-} $(VARIANT)" GOGC=400 GOMEMLIMIT=2GiB $(CURDIR)/.bin/golangci-lint run ./...)

## lint-config: check .golangci.yml itself
lint-config: tools
	@.bin/golangci-lint config verify

## fmt: format with gofumpt and goimports
fmt: tools
	@.bin/golangci-lint fmt ./...

## fmt-check: show what fmt would change, and fail if there is anything
fmt-check: tools
	@.bin/golangci-lint fmt --diff ./...

## test: all tests
test:
	@$(call each,$(CODE),go test ./...)

# All is compiled first, as two modules at a time would compile what both import twice. What go vet finds, which go test runs again
# for each set of flags, make lint finds too.
## race: all tests under the race detector, RACE_COUNT times, and the TestStress tests once more
race:
	@$(call each,$(CODE),go list -race -test -export ./... >/dev/null)
	@$(call pairs,$(CODE),go test -race -vet=off -p 4 -parallel 8 -timeout 15m -count=$(RACE_COUNT) -exec $(CURDIR)/.ci/twice ./...)

## stress: the TestStress tests under the race detector, STRESS_COUNT times, in the packages that have any
stress:
	@.ci/tests TestStress | cut -d ' ' -f 2 | uniq | xargs -P 2 -I DIR \
		go -C DIR test -race -vet=off -timeout 20m -run '^TestStress' -count=$(STRESS_COUNT) .

## fuzz: every fuzz target for FUZZTIME
fuzz:
	@.ci/fuzz $(FUZZTIME)

## bench: measure Sluice next to its rivals and write the numbers of all pages; BENCH selects benchmarks, as go test -bench does; half an hour
bench:
	@cd bench && go test -c -o bench.test . && for round in $$(seq $(ROUNDS)); do ./bench.test -test.run '^$$' -test.bench '$(BENCH)' || exit 1; done | tee bench.out
	@go -C bench run ./cmd/results bench.out
	@$(MAKE) --no-print-directory numbers

## bench-commands: the same for sluice throttle, run, proxy and serve; needs pv, GNU parallel, nginx and redis-server; 15 minutes
bench-commands:
	@cd bench && go run ./cmd/compare > commands.out && mv commands.out commands.txt
	@cd bench && go run ./rls > rls.out && mv rls.out rls.txt
	@$(MAKE) --no-print-directory numbers

## numbers: write the numbers in bench/*.txt into the pages and the package comments
numbers:
	@go test ./internal/docs -run '^TestNumbers$$' -count=1 -args -update

## plots: write the table and the plot of docs/overload.md
plots:
	go test ./examples/loadtest -run '^TestPage$$' -count=1 -update

## examples: run each example program once
examples:
	@bash examples/run.sh </dev/null

## browser: try the playground in Chromium
browser:
	cd docs/compat && go test -count=1 -run '^TestPlayground$$' -v . -args -browser

## go125: vet and test the library's modules with the oldest Go that they support
go125:
	@for m in $(LIBRARY); do echo "module $$m"; (cd "$$m" && GOTOOLCHAIN=$(OLDEST) go vet ./...) || exit 1; done; \
	GOTOOLCHAIN=$(OLDEST) go test -short ./core ./internal/machine ./channel ./pipe ./ioreader ./worker ./partition ./spec

## vulncheck: look for known vulnerabilities in what the released modules use
vulncheck: tools
	@$(call each,$(LIBRARY) cmd/sluice,$(CURDIR)/.bin/govulncheck ./...)

## packages: build the command's packages of an unreleased version with goreleaser
packages:
	go run $(GORELEASER) check $(PACKAGING)
	go run $(GORELEASER) release --config $(PACKAGING) --snapshot --clean --skip=publish

## envoy: try sluice serve behind a real Envoy, which is installed into .bin
envoy:
	@.ci/envoy

## playground-picture: make docs/playground.png by the browser test
playground-picture:
	cd docs/compat && go test -count=1 -run '^TestPlaygroundPicture$$' . -args -browser -picture ../../docs/playground.png

## tidy: go mod tidy
tidy:
	@$(call each,$(ALL),go mod tidy)

## tidy-check: show what tidy would change, and fail if there is anything
tidy-check:
	@$(call each,$(ALL),go mod tidy -diff)

## verify: the downloaded modules are the ones that go.sum names
verify:
	@$(call each,$(ALL),go mod verify)

## release-check: make a release of the last commit in a temporary clone, and build with it as users will, without a network
release-check:
	@go -C tools run ./release check

## release: make the commit and the tags of VERSION, and push nothing; with -n or DRY=1 only show them
release:
	+@go -C tools run ./release tag $(if $(DRY)$(findstring n,$(firstword -$(MAKEFLAGS))),-n) $(VERSION)

## ci: the gate, as it runs on every change
ci:
	.ci/run

## nightly: what takes too long for the gate, or needs a browser or Envoy
nightly:
	.ci/nightly
