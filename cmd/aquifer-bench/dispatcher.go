package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/child"
	"github.com/aquifer-fleet/aquifer/cmd/port"
)

// dispatcher is a running node or relay, or a node with another one behind it.
type dispatcher struct {
	*child.Process
	addr   string      // host:port of its interface
	debug  string      // host:port of its debug interface; empty if it has none
	behind *dispatcher // that it forwards to; nil if it does the work itself
}

// stopTimeout is how long a process may take to end when asked; then it is killed.
const stopTimeout = 15 * time.Second

// stop asks all processes to end and waits for them, the one that is called first.
func (d *dispatcher) stop() error {
	err := d.Terminate(stopTimeout)
	if d.behind != nil {
		err = errors.Join(err, d.behind.stop())
	}
	return err
}

// contender is something to be measured: it starts a dispatcher that works in dir.
type contender struct {
	name  string
	start func(ctx context.Context, dir string) (*dispatcher, error)
	jobs  int // it gets so many; 0: as many as the workload has
}

// with is the contender beside itself, with more jobs.
func (c contender) with(jobs int) contender { return contender{longName(c.name, jobs), c.start, jobs} }

func longName(name string, jobs int) string { return fmt.Sprintf("%s %d", name, jobs) }

// relayName is the contender that the others are compared with.
const relayName = "relay"

func relayContender() contender {
	return contender{name: relayName, start: func(_ context.Context, dir string) (*dispatcher, error) {
		ln, addr, err := loopback()
		if err != nil {
			return nil, err
		}
		defer ln.Close() // the process has its own
		p, err := self(dir, "relay", []*os.File{ln})
		if err != nil {
			return nil, err
		}
		c, err := child.Start(p)
		if err != nil {
			return nil, err
		}
		return &dispatcher{Process: c, addr: addr}, nil
	}}
}

// durability is the promise of an acknowledgement, by the name that the command line uses.
type durability string

const (
	durabilityDefault durability = "default" // survives the death of the process
	durabilitySync    durability = "sync"    // on disk
)

// nodeOptions are flags that every command with a node has.
type nodeOptions struct {
	Node string            `help:"The aquifer binary under test." default:"./bin/aquifer" type:"path"`
	Env  map[string]string `help:"More environment for the node, as NAME=VALUE; it wins over what the benchmark sets." mapsep:"none"`
	Dir  string            `help:"Where the temporary databases go: the disk that is measured. The system's directory for temporary files if empty." type:"path"`
}

// node is a node that can be started again on its data.
type node struct {
	path  string
	dir   string // of its data, configuration and log
	addr  string
	debug string
	env   []string
}

// nodeSetup is what differs from node to node.
type nodeSetup struct {
	durability durability
	targets    string            // YAML file of the targets' pace; empty: nothing is held back
	env        map[string]string // more environment
}

// newNode prepares a node in dir, which exists.
func (o nodeOptions) newNode(dir string, setup nodeSetup) (*node, error) {
	if _, err := os.Stat(o.Node); err != nil {
		return nil, fmt.Errorf("no node to measure (build it, or name one with --node): %w", err)
	}
	n := &node{path: o.Node, dir: dir}
	listen, debug, err := port.Pair()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(cmp.Or(setup.targets, rates(""))), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of the node: %w", err)
	}
	env := map[string]string{
		"AQUIFER_LISTEN":     listen,
		"AQUIFER_DEBUG_ADDR": debug,
		"DB_PATH":            n.data(),
		"CONFIG_PATH":        filepath.Join(dir, "config.yaml"),
		// Admission is not what is measured: a million jobs for one target are wanted here.
		"AQUIFER_MAX_PENDING_PER_UPSTREAM":      "0",
		"AQUIFER_MAX_PENDING_WEBHOOKS_PER_USER": "0",
		"AQUIFER_SHUTDOWN_QUIESCE_MS":           "0",
		"AQUIFER_SHUTDOWN_TIMEOUT_SECONDS":      "10",
	}
	if setup.durability == durabilitySync {
		env["AQUIFER_PEBBLE_FLUSH_INTERVAL_MS"] = "0"
	}
	maps.Copy(env, setup.env)
	maps.Copy(env, o.Env)
	n.addr, n.debug = env["AQUIFER_LISTEN"], env["AQUIFER_DEBUG_ADDR"]
	for _, name := range slices.Sorted(maps.Keys(env)) {
		n.env = append(n.env, name+"="+env[name])
	}
	return n, nil
}

func (n *node) data() string { return filepath.Join(n.dir, "db") }

// rates is a configuration under which pacing holds nothing back, except for the slow target.
func rates(slowTarget string) string {
	text := "defaults:\n  rps: 1000000000\n  max_concurrent: 4096\n"
	if slowTarget != "" {
		text += fmt.Sprintf("upstreams:\n  %q:\n    rps: 0.5\n    max_concurrent: 1\n", slowTarget)
	}
	return text
}

// readyTimeout bounds a start; a node with a million jobs is to be ready within 5 s.
const readyTimeout = 2 * time.Minute

// start starts the node and waits until it is ready.
func (n *node) start(ctx context.Context) (*dispatcher, error) {
	c, err := child.Start(child.Program{Name: "node", Path: n.path, Dir: n.dir, Env: n.env})
	if err != nil {
		return nil, err
	}
	d := &dispatcher{Process: c, addr: n.addr, debug: n.debug}
	if err := c.Await(ctx, readyTimeout, d.ready); err != nil {
		c.Kill()
		return nil, err
	}
	return d, nil
}

func (o nodeOptions) contender(name string, setup nodeSetup) contender {
	return contender{name: name, start: func(ctx context.Context, dir string) (*dispatcher, error) {
		n, err := o.newNode(dir, setup)
		if err != nil {
			return nil, err
		}
		return n.start(ctx)
	}}
}
