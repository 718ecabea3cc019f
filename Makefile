# Each verb says what it does: make help. LONG=1 makes fuzz, bench, e2e and e2e-kill as thorough as a release needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .tools/golangci-lint-$(GOLANGCI_LINT_VERSION)

# LONG: fuzz by time, else by a count, which a slow machine only makes slower.
FUZZ      := $(if $(LONG),60s,20000x)
KILLS     := $(if $(LONG),200,20)
BENCHTIME ?= 1s
E2E_JOBS  ?= 4000

.PHONY: help build deps test race lint fuzz bench e2e e2e-kill

help: ## List the verbs.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the commands into ./bin.
	go build -o bin/ ./cmd/...

deps:
	go mod download

test: deps ## Install what the tests need and run them all.
	go test ./...

race: ## Run all tests with the race detector (needs a C compiler).
	CGO_ENABLED=1 go test -race ./...
	CGO_ENABLED=1 go test -race -tags crashpoints ./node/crashpoint

lint: $(GOLANGCI_LINT) ## Hold the rules that a machine can hold.
	$(GOLANGCI_LINT) run --allow-serial-runners
	$(GOLANGCI_LINT) run --allow-serial-runners --build-tags crashpoints ./cmd/aquifer ./node/crashpoint

$(GOLANGCI_LINT):
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tools/golangci-lint $@

fuzz: ## Run each fuzz target for a while; a minute each with LONG=1.
	.ci/fuzz $(FUZZ)

bench: build ## Measure: Go benchmarks, then the whole path beside what it must reach.
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
	bin/aquifer-bench gate $(if $(LONG),--long,--rounds 1 --jobs $(E2E_JOBS))

e2e: build ## Send jobs through the real binary with restarts; none may be lost or done twice.
	bin/aquifer-bench e2e --only node --rounds 1 --jobs $(E2E_JOBS)
	bin/aquifer-bench e2e --only node --rounds 1 --jobs $(E2E_JOBS) --durability sync
	bin/aquifer-bench soak $(if $(LONG),,--duration 40s --restarts 4 --retention 5s --rate 200)
	$(if $(LONG),bin/aquifer-bench backlog)

e2e-kill: ## Kill the real binary with -9 at random and at each gap between two states; 200 times with LONG=1.
	go test -v -count=1 -timeout 60m -tags crashpoints -run '^TestKL' ./cmd/aquifer -kills $(KILLS)
