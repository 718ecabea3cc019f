package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// gateCmd measures what a node must reach, in both durability modes, and sets it beside the limits.
type gateCmd struct {
	nodeOptions
	Rounds int  `help:"Rounds; in each one the relay and both modes run once." default:"5"`
	Jobs   int  `help:"Jobs that are measured per run." default:"40000"`
	Warmup int  `help:"Jobs before them." default:"2000"`
	Long   bool `help:"Also compare 300,000 jobs with 40,000."`
	JSON   bool `name:"json" help:"Print JSON instead of tables."`
}

// Help is shown by the command line.
func (gateCmd) Help() string {
	return `Runs the relay and the node in both durability modes in turn, then all three at 1,000 jobs/s, and prints
each figure beside what it must reach. The exit code is 1 only if a job was lost, altered or done
twice: figures depend on the machine and on who else is using it.`
}

// Validate is called by the command line.
func (c *gateCmd) Validate() error {
	if c.Rounds < 1 || c.Jobs < 1 || c.Warmup < 0 {
		return errors.New("--rounds and --jobs must be at least 1, --warmup not negative")
	}
	return nil
}

// Names of the contenders of a gate: the node in one of its modes.
const (
	nodeDefault = "default"
	nodeSync    = "sync"
)

// longJobs are so many that what a job costs would show it if it grew with the jobs that are kept.
const longJobs = 300_000

// gateReport is the result.
type gateReport struct {
	Machine machine   `json:"machine"`
	Checks  []check   `json:"checks"`
	Closed  []summary `json:"closed_loop"`
	Open    []summary `json:"at_1000_per_second"`
}

// Run measures and reports.
func (c *gateCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	root, err := os.MkdirTemp(c.Dir, "aquifer-bench-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	rep := gateReport{Machine: thisMachine()}
	field := []contender{
		c.contender(nodeDefault, nodeSetup{durability: durabilityDefault}),
		relayContender(),
		c.contender(nodeSync, nodeSetup{durability: durabilitySync}),
	}
	closed := workload{C: 64, Conns: 64, Jobs: c.Jobs, Warmup: c.Warmup, Body: 256, Tenants: 64, Stall: 15 * time.Second}
	long := field
	if c.Long {
		long = append(slices.Clip(field), field[0].with(longJobs), field[2].with(longJobs))
	}
	if rep.Closed, err = c.series(ctx, root, long, closed, s.Err); err != nil {
		return err
	}
	open := closed
	open.Rate, open.Jobs = 1000, min(5000, c.Jobs)
	if rep.Open, err = c.series(ctx, root, field, open, s.Err); err != nil {
		return err
	}
	rep.Checks = checks(rep)
	if err := c.write(s.Out, rep); err != nil {
		return err
	}
	return errors.Join(verdicts(rep.Closed), verdicts(rep.Open))
}

func (c *gateCmd) series(ctx context.Context, root string, field []contender, w workload, progress io.Writer) ([]summary, error) {
	fmt.Fprintln(progress, w)
	all, err := compete(ctx, root, field, w, c.Rounds, progress)
	if err != nil {
		return nil, err
	}
	return summarize(all), nil
}

func (c *gateCmd) write(w io.Writer, rep gateReport) error {
	if c.JSON {
		return writeIndented(w, rep)
	}
	fmt.Fprintln(w, rep.Machine)
	for _, part := range []struct {
		title string
		list  []summary
	}{
		{"closed loop", rep.Closed}, {"at 1,000 jobs/s", rep.Open},
	} {
		fmt.Fprintf(w, "\n%s\n", part.title)
		if err := writeSummaries(w, part.list); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	t := table{head: []string{"mode", "figure", "must be", "is", ""}}
	for _, x := range rep.Checks {
		t.add(x.Mode, x.Figure, x.limit(), fmt.Sprintf("%.3g", x.Got), x.word())
	}
	return t.write(w)
}
