# Everything a contributor or the gate runs, by name. Each target works on every module of the repository.
# The tools are built once, from the versions pinned in tools/go.mod, into .bin/.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

FUZZTIME     ?= 2m
STRESS_COUNT ?= 20
RACE_COUNT   ?= 1

# Tests and lint are for modules that hold packages; tools/ is only a list of programs.
CODE = $(shell .ci/modules -code)
ALL  = $(shell .ci/modules)

each = for module in $(1); do echo "module $$module"; (cd "$$module" && $(2)) || exit 1; done

.PHONY: all tools build cross vet lint fmt fmt-check test race stress fuzz bench api examples tidy tidy-check verify ci

all: build lint test

## tools: build the pinned tools into .bin/
tools:
	@cd tools && CGO_ENABLED=0 go build -trimpath -o ../.bin/ tool

## build: compile every package
build:
	@$(call each,$(CODE),go build ./...)

## cross: compile the library where words are 32 bits wide and where the system is another
cross:
	GOOS=linux GOARCH=386 go build ./...
	GOOS=windows GOARCH=amd64 go build ./...
	GOOS=darwin GOARCH=arm64 go build ./...

## vet: go vet
vet:
	@$(call each,$(CODE),go vet ./...)

## lint: golangci-lint, by .golangci.yml
lint: tools
	@$(call each,$(CODE),$(CURDIR)/.bin/golangci-lint run ./...)

## fmt: format with gofumpt and goimports
fmt: tools
	@.bin/golangci-lint fmt ./...

## fmt-check: show what fmt would change, and fail if there is anything
fmt-check: tools
	@.bin/golangci-lint fmt --diff ./...

## test: all tests
test:
	@$(call each,$(CODE),go test ./...)

## race: all tests under the race detector, RACE_COUNT times
race:
	@$(call each,$(CODE),go test -race -timeout 30m -count=$(RACE_COUNT) ./...)

## stress: the TestStress tests under the race detector, STRESS_COUNT times
stress:
	@$(call each,$(CODE),go test -race -timeout 60m -run '^TestStress' -count=$(STRESS_COUNT) ./...)

## fuzz: every fuzz target for FUZZTIME
fuzz:
	@.ci/fuzz $(FUZZTIME)

## bench: the side-by-side benchmarks
bench: tools
	@if [ -d bench ]; then $(MAKE) -C bench all; else echo "bench: there is no bench module"; fi

## api: record the exported API in api/
api:
	go test ./internal/api -run '^TestRecord$$' -count=1 -update

## examples: run each example program once
examples:
	@if [ -z "$$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./... | grep /examples/)" ]; then \
		echo "examples: there are none"; \
	elif [ -f examples/run.sh ]; then \
		bash examples/run.sh </dev/null; \
	else \
		echo "examples: there are programs, but no examples/run.sh that runs them" >&2; exit 1; \
	fi

## tidy: go mod tidy
tidy:
	@$(call each,$(ALL),go mod tidy)

## tidy-check: show what tidy would change, and fail if there is anything
tidy-check:
	@$(call each,$(ALL),go mod tidy -diff)

## verify: the downloaded modules are the ones that go.sum names
verify:
	@$(call each,$(ALL),go mod verify)

## ci: the gate, as it runs on every change
ci:
	.ci/run
