package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// durabilitySync makes an acknowledgement mean that the job is on disk.
const durabilitySync = "sync"

// chaosCmd is the command line of chaos.
type chaosCmd struct {
	Node       string            `help:"The aquifer binary under test." default:"./bin/aquifer" type:"path"`
	Only       []string          `help:"Scenarios to run; all if empty." placeholder:"NAME,..."`
	Provider   []string          `help:"Ways in which the nodes know of each other." default:"static,gossip,valkey" enum:"static,gossip,valkey"`
	Durability string            `help:"What an acknowledgement promises: flush, the job survives the death of the process; sync, it is on disk." default:"flush" enum:"flush,sync"`
	Short      bool              `help:"Leave out what is much like another scenario."`
	Seconds    int               `help:"Least time of load of each scenario." default:"20"`
	Rate       float64           `help:"Jobs a second." default:"40"`
	Users      int               `help:"Tenants." default:"60"`
	Parallel   int               `help:"Worlds that run side by side." default:"3"`
	Env        map[string]string `help:"More environment for the nodes, as NAME=VALUE." mapsep:"none"`
	Dir        string            `help:"Where the temporary databases go; the system's directory for temporary files if empty." type:"path"`
	Keep       bool              `help:"Keep the files of scenarios that failed, and tell where they are."`
	List       bool              `help:"List the scenarios and run none."`
}

// Validate is called by the command line.
func (c *chaosCmd) Validate() error {
	if c.Seconds < 0 || c.Rate <= 0 || c.Users < 1 || c.Parallel < 1 {
		return errors.New("--seconds must not be negative; --rate, --users and --parallel must be positive")
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("--only %s: there is no such scenario; --list shows all", name)
		}
	}
	return nil
}

// errNotAll is that something was not as it must be.
var errNotAll = errors.New("not all scenarios ended as they must")

// Run plays and reports: a line of JSON for each scenario on standard output as it ends, and a table of all at
// the end on standard error.
func (c *chaosCmd) Run(ctx context.Context, s commandline.Streams) (err error) {
	if c.List {
		for _, it := range scenarios() {
			fmt.Fprintf(s.Out, "%-18s %s\n", it.name, it.about)
		}
		return nil
	}
	if _, err := os.Stat(c.Node); err != nil {
		return fmt.Errorf("no node to break (build it, or name one with --node): %w", err)
	}
	root, err := os.MkdirTemp(c.Dir, "aquifer-scenario-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() {
		if err == nil || !c.Keep {
			err = errors.Join(err, os.RemoveAll(root))
		}
	}()
	list, err := c.all(ctx, root, s)
	if err != nil {
		return err
	}
	if err := writeTable(s.Err, list); err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(o outcome) bool { return !o.Passed }) {
		if c.Keep {
			fmt.Fprintln(s.Err, "files are in", root)
		}
		return errNotAll
	}
	return nil
}

// round is one scenario with one provider.
type round struct {
	scenario
	provider string
}

func (c *chaosCmd) rounds() []round {
	var list []round
	for _, s := range scenarios() {
		if len(c.Only) > 0 && !slices.Contains(c.Only, s.name) || c.Short && !s.short {
			continue
		}
		for _, p := range c.Provider {
			if s.with == nil || slices.Contains(s.with, p) {
				list = append(list, round{s, p})
			}
		}
	}
	return list
}

// all plays every round, some side by side.
func (c *chaosCmd) all(ctx context.Context, root string, s commandline.Streams) ([]outcome, error) {
	rounds := c.rounds()
	list := make([]outcome, len(rounds))
	var (
		writing sync.Mutex
		lines   = json.NewEncoder(s.Out)
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Parallel)
	for i, r := range rounds {
		group.Go(func() error {
			o := c.play(ctx, filepath.Join(root, r.name+"-"+r.provider), r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			writing.Lock()
			defer writing.Unlock()
			list[i] = o
			return lines.Encode(o)
		})
	}
	return list, group.Wait()
}

// play builds a world, plays a round in it and ends it.
func (c *chaosCmd) play(ctx context.Context, dir string, r round) outcome {
	begin := time.Now()
	o := outcome{Scenario: r.name, Provider: r.provider, Durability: c.Durability}
	a, noticed, err := c.inWorld(ctx, dir, r)
	o.account, o.Seconds = a, time.Since(begin).Seconds()
	o = conclude(r.scenario, o, noticed, err)
	if o.Passed || !c.Keep {
		_ = os.RemoveAll(dir) // at the latest it goes with the directory of the run
	}
	return o
}

func (c *chaosCmd) inWorld(ctx context.Context, dir string, r round) (a account, noticed time.Duration, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a, 0, fmt.Errorf("directory of %s: %w", r.name, err)
	}
	w, err := newWorld(setup{
		node: c.Node, dir: dir, provider: r.provider, durability: c.Durability,
		size: max(r.nodes, nodesAtFirst), env: c.Env, times: ordinaryTimes(),
	})
	if err != nil {
		return a, 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.load.rate, w.load.users = c.Rate, c.Users
	if err := w.start(ctx, nodesAtFirst); err != nil {
		return a, 0, err
	}
	a, err = w.play(ctx, r.scenario, time.Duration(c.Seconds)*time.Second)
	return a, w.noticed, err
}
