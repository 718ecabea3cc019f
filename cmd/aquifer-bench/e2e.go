package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// e2eCmd measures the whole path, from submission to webhook, against the relay in the same run.
type e2eCmd struct {
	nodeOptions
	workload
	Durability durability `help:"What the node's acknowledgement promises: default or sync." enum:"default,sync" default:"default"`
	Rounds     int        `help:"Rounds; in each one every contender runs once." default:"5"`
	Only       string     `help:"Run only the relay or only the node." enum:",relay,node" default:""`
	Forwarded  bool       `help:"Also run two nodes of which the one that is called owns no tenant."`
	JSON       bool       `name:"json" help:"Print JSON instead of tables."`
}

// Help is shown by the command line.
func (e2eCmd) Help() string {
	return `Starts a target and a webhook receiver in one process and the dispatcher under test in another, and
submits jobs to it. A job is done when its webhook has arrived. Rounds alternate between the node, on a
new database each time, and the relay: the same three HTTP hops without any storage or pacing.

The exit code is 1 if a job was lost, altered or done twice. Slowness is reported, not judged.`
}

// Validate is called by the command line.
func (c *e2eCmd) Validate() error {
	if c.Rounds < 1 {
		return errors.New("--rounds must be at least 1")
	}
	return c.workload.Validate()
}

// report is the result of a comparison.
type report struct {
	Machine    machine    `json:"machine"`
	Durability durability `json:"durability,omitempty"`
	Workload   workload   `json:"workload"`
	Summaries  []summary  `json:"summaries"`
	Rounds     []result   `json:"rounds"`
}

// Run measures and reports.
func (c *e2eCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	root, err := os.MkdirTemp(c.Dir, "aquifer-bench-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	rep := report{Machine: thisMachine(), Durability: c.Durability, Workload: c.workload}
	rep.Rounds, err = compete(ctx, root, c.contenders(), c.workload, c.Rounds, s.Err)
	if err != nil {
		return err
	}
	rep.Summaries = summarize(rep.Rounds)
	if err := c.write(s.Out, rep); err != nil {
		return err
	}
	return verdicts(rep.Summaries)
}

func (c *e2eCmd) contenders() []contender {
	var list []contender
	if c.Only != relayName {
		list = append(list, c.contender("node", nodeSetup{durability: c.Durability}))
	}
	if c.Forwarded {
		list = append(list, c.forwarded("forwarded", nodeSetup{durability: c.Durability}))
	}
	if c.Only != "node" {
		list = append(list, relayContender())
	}
	return list
}

func (c *e2eCmd) write(w io.Writer, rep report) error {
	if c.JSON {
		return writeIndented(w, rep)
	}
	fmt.Fprintf(w, "%s\ndurability %s, %s, %d rounds\n", rep.Machine, rep.Durability, rep.Workload, c.Rounds)
	return writeSummaries(w, rep.Summaries)
}
