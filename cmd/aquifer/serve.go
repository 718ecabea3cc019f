package main

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/aquifer-fleet/aquifer/node"
)

// gcPercent lets the heap grow to four times its live part between collections: over 10 % more jobs a
// second than with the runtime's own 100, for little memory, as a node's live heap is small. GOGC
// overrides it.
const gcPercent = 300

// spareThreads is how many threads may run Go code at a time beyond the processors that there are. One that writes or
// syncs the log stands still, and the runtime takes a while to notice: without a spare its processor
// idles meanwhile. One is worth some 8 % more jobs a second on two processors. GOMAXPROCS overrides it.
const spareThreads = 1

// serveCommand runs a node until a signal ends it.
type serveCommand struct{}

func (serveCommand) Run(p *process) error {
	cfg, warnings, err := p.settings()
	if err != nil {
		return err
	}
	logger := newLogger(p.stderr, cfg.Log, cfg.Level())
	for _, w := range warnings {
		logger.Warn("setting has no effect", "name", w.Name, "why", w.Text)
	}
	if p.env("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if p.env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareThreads)
	}
	n, err := node.New(cfg, node.Deps{Logger: logger, Registry: processMetrics(), Descriptors: descriptors()})
	if err != nil {
		return err
	}
	// Garbage is collected before it counts as memory that is over the limit.
	if limit := n.MemoryLimit(); limit > 0 && p.env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
	ctx, stop := untilSignal(context.Background(), signals{
		hangup: func() { reload(n, logger) },
		first: func(sig os.Signal) {
			logger.Info("stopping; another signal ends the process at once", "signal", sig.String())
		},
		exit: func(code int) {
			logger.Warn("ended at once by a second signal")
			p.exit(code)
		},
	})
	defer stop()
	return n.Run(ctx)
}

// reload has the node read the file with the pace of its targets again.
func reload(n *node.Node, logger *slog.Logger) {
	if err := n.Reload(); err != nil {
		logger.Error("the pace of the targets stays as it is", "error", err)
		return
	}
	logger.Info("the pace of the targets is read again")
}

// processMetrics returns a registry with what is known about the process as a whole: a node counts
// only what is its own, as there may be several in one process.
func processMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

func (*serveCommand) examples() string {
	return `Examples:
  aquifer                                   port 8080, store in ./aquifer.db
  PORT=9000 DB_PATH=/var/lib/aquifer aquifer
  CONFIG_PATH=targets.yaml aquifer          with the pace of your targets, such as
      defaults:  {rps: 2, max_concurrent: 1}
      upstreams: {api.example.com: {rps: 5, max_concurrent: 2, timeout: 60}}

Settings come from the environment; aquifer config prints all of them. Often used:
  PORT                             port of the API (8080)
  DB_PATH                          directory of the store (aquifer.db)
  CONFIG_PATH                      YAML file with the pace of each target
  AQUIFER_PEBBLE_FLUSH_INTERVAL_MS what a power cut may take (100); 0 takes nothing
  AQUIFER_SHUTDOWN_TIMEOUT_SECONDS bound of a graceful stop (30)
  AQUIFER_LOG, AQUIFER_LOG_LEVEL   form (auto, json, text) and amount of the log

The first SIGINT or SIGTERM stops the node: it refuses new jobs, finishes what it has begun and what
is due, and leaves the rest on disk for the next start. A second one ends it at once; that loses
nothing either, but calls under way are repeated. SIGHUP has the file with the pace of the targets read
again; one that is not valid changes nothing, and the log says why.

Try next: curl localhost:8080/health, aquifer job list
`
}
