package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// backlogCmd measures a node that has very many jobs queued.
type backlogCmd struct {
	nodeOptions
	Durability durability    `help:"What the node's acknowledgement promises: default or sync." enum:"default,sync" default:"default"`
	Queued     int           `help:"Jobs to queue." default:"1000000"`
	Graceful   bool          `help:"Restart with SIGTERM instead of kill -9."`
	Rounds     int           `help:"Rounds of the accept rate; each measures the node with the backlog and an empty one." default:"5"`
	Probe      int           `help:"Jobs per measurement of the accept rate." default:"20000"`
	C          int           `short:"c" help:"Connections that submit." default:"64"`
	Body       int           `help:"Bytes of a job's body." default:"256"`
	Tenants    int           `help:"Tenants that take turns." default:"64"`
	Stall      time.Duration `help:"How long nothing may happen before the run is given up." default:"30s"`
	JSON       bool          `name:"json" help:"Print JSON instead of a table."`
}

// Help is shown by the command line.
func (backlogCmd) Help() string {
	return `Fills a node with jobs for a target that takes one in two seconds, ends the node, and starts it again
on the same data: how long until it is ready, until it sends the first job, and how much memory that
takes. Then it compares the rate at which that node accepts jobs with the rate of an empty one.

A sample of the queued jobs is submitted once more: one that is not known any more was lost, and the
exit code is 1.`
}

// Validate is called by the command line.
func (c *backlogCmd) Validate() error {
	if c.Queued < 1 || c.Rounds < 1 || c.Probe < 1 || c.Body < 0 || c.Stall <= 0 {
		return errors.New("--queued, --rounds, --probe and --stall must be positive")
	}
	return c.workload().Validate()
}

func (c *backlogCmd) workload() workload {
	return workload{C: c.C, Conns: c.C, Jobs: c.Queued, Body: c.Body, Tenants: c.Tenants, Stall: c.Stall}
}

// backlogReport is the result. Times count from the start of the process.
type backlogReport struct {
	Machine      machine    `json:"machine"`
	Durability   durability `json:"durability"`
	Queued       int        `json:"queued"`
	Refused      int        `json:"refused"`
	FillRate     float64    `json:"fill_jobs_per_second"`
	FilledRSS    int64      `json:"rss_before_restart_bytes"`
	DatabaseSize int64      `json:"database_bytes"`
	Ready        float64    `json:"ready_seconds"`
	FirstCall    float64    `json:"first_call_seconds"` // 0 if none came
	ReadyRSS     int64      `json:"rss_when_ready_bytes"`
	PeakRSS      int64      `json:"peak_rss_bytes"` // of the restarted node until its first call
	EndRSS       int64      `json:"peak_rss_at_end_bytes"`
	AcceptFull   spread     `json:"accept_with_backlog_per_second"`
	AcceptEmpty  spread     `json:"accept_empty_per_second"`
	Ratio        spread     `json:"accept_ratio"` // with backlog to empty, round by round
	FullLatency  quantiles  `json:"accept_with_backlog"`
	EmptyLatency quantiles  `json:"accept_empty"`
	Checked      int        `json:"checked"`
	Lost         int        `json:"lost"` // of those checked
}

// Run measures and reports.
func (c *backlogCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	root, err := os.MkdirTemp(c.Dir, "aquifer-bench-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	r, err := newRun(root, c.workload(), c.Queued+2*c.Rounds*c.Probe)
	if err != nil {
		return err
	}
	b := &backlog{backlogCmd: c, run: r, root: root, say: func(format string, args ...any) { fmt.Fprintf(s.Err, format+"\n", args...) }}
	b.report = backlogReport{Machine: thisMachine(), Durability: c.Durability, Queued: c.Queued}
	err = b.measure(ctx)
	if err = errors.Join(err, r.sinks.close()); err != nil {
		return err
	}
	if c.JSON {
		err = writeIndented(s.Out, b.report)
	} else {
		err = b.report.write(s.Out)
	}
	if err == nil && b.report.Lost > 0 {
		err = fmt.Errorf("%w: %d of %d queued jobs are not known after the restart", errBroken, b.report.Lost, b.report.Checked)
	}
	return err
}
