# Each verb says what it does: make help. LONG=1 makes fuzz, bench and the e2e verbs as thorough as a release needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT := .tools/golangci-lint-$(GOLANGCI_LINT_VERSION)

# LONG: fuzz by time, else by a count, which a slow machine only makes slower.
FUZZ      := $(if $(LONG),60s,5000x)
KILLS     := $(if $(LONG),200,20)
BENCHTIME ?= 1s
E2E_JOBS  ?= 4000
# PATIENCE is for all tests of one package: Go's own 10 minutes are few where the race detector shares two slow cores.
PATIENCE  := 30m

.PHONY: help build image deps test race lint fuzz bench e2e e2e-kill e2e-chaos e2e-compose

help: ## List the verbs.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the commands into ./bin.
	go build -o bin/ ./cmd/...

IMAGE ?= aquifer

image: ## Build the container image from what this machine compiles; no registry is asked.
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/image/root/usr/bin/ ./cmd/aquifer
	install -D -m 644 /etc/ssl/certs/ca-certificates.crt -t bin/image/root/etc/ssl/certs
	mkdir -p bin/image/data
	docker build --target node --file deploy/Dockerfile --tag $(IMAGE)-node .
	docker build --build-arg NODE=$(IMAGE)-node --file deploy/local.Dockerfile --tag $(IMAGE) .

deps:
	go mod download
	.ci/valkey

test: deps ## Install what the tests need and run them all.
	go test -timeout $(PATIENCE) ./...

# Timers of one synctest bubble share one context of the race detector, also when two processors fire them at once, as
# they do with a timer of no time and with one whose reader is late: then it crashes. So each test has one processor.
race: ## Run all tests with the race detector (needs a C compiler).
	CGO_ENABLED=1 go test -race -cpu 1 -timeout $(PATIENCE) ./...
	CGO_ENABLED=1 go test -race -tags crashpoints ./node/crashpoint

lint: $(GOLANGCI_LINT) ## Hold the rules that a machine can hold.
	go mod tidy -diff
	$(GOLANGCI_LINT) run --allow-serial-runners
	$(GOLANGCI_LINT) run --allow-serial-runners --build-tags crashpoints,compose ./cmd/aquifer ./node/crashpoint

$(GOLANGCI_LINT):
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv .tools/golangci-lint $@

fuzz: ## Run each fuzz target for a while; a minute each with LONG=1.
	.ci/fuzz $(FUZZ)

bench: build ## Measure: Go benchmarks, then the whole path and the pace beside what they must reach.
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...
	bin/aquifer-bench gate $(if $(LONG),--long,--rounds 1 --jobs $(E2E_JOBS))
	bin/aquifer-bench pace $(if $(LONG),,--quick)

e2e: build ## Send jobs through the real binary with restarts; none may be lost or done twice.
	bin/aquifer-bench e2e --only node --forwarded --rounds 1 --jobs $(E2E_JOBS)
	bin/aquifer-bench e2e --only node --rounds 1 --jobs $(E2E_JOBS) --durability sync
	bin/aquifer-bench soak $(if $(LONG),,--duration 40s --restarts 4 --retention 5s --rate 200)
	$(if $(LONG),bin/aquifer-bench backlog)

e2e-kill: ## Kill the real binary with -9 at random and at each gap between two states; 200 times with LONG=1.
	go test -v -count=1 -timeout 60m -tags crashpoints -run '^TestKL' ./cmd/aquifer -kills $(KILLS)

e2e-chaos: build ## Break real clusters under load in many ways; no job may be lost, and none done twice without a reason.
	.ci/valkey
	bin/aquifer-scenario chaos $(if $(LONG),,--short)
	$(if $(LONG),bin/aquifer-scenario chaos --durability sync)

e2e-compose: ## Kill containers of compose.yaml under load; does nothing without a Docker engine.
	.ci/e2e-compose
