// Command aquifer-bench measures a node from outside: how fast jobs pass through it, what they cost,
// how it starts with a large backlog, and whether it stays flat over time.
//
// It brings its own target and webhook receiver, keeps account of every job, and compares with a relay
// that makes the same HTTP hops and keeps nothing, in the same run. It listens on the loopback
// interface only, ends every process it starts, and removes its files. It judges what must always hold
// (no job lost, none done twice); speed it reports.
package main

import (
	"os"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// commands is the command line.
type commands struct {
	E2E     e2eCmd     `cmd:"" name:"e2e" help:"Measure the whole path against the relay."`
	Gate    gateCmd    `cmd:"" help:"Measure both durability modes and set the figures beside what they must reach."`
	Backlog backlogCmd `cmd:"" help:"Measure a restart with very many queued jobs, and the accept rate beside them."`
	Soak    soakCmd    `cmd:"" help:"Run for long with restarts, and judge whether the node stays flat."`
	Pace    paceCmd    `cmd:"" help:"Measure how exactly targets get what they may, and how fairly tenants share it."`

	Sinks sinksCmd `cmd:"" hidden:"" help:"The target and the webhook receiver, as e2e starts them."`
	Relay relayCmd `cmd:"" hidden:"" help:"The relay, as e2e starts it."`
}

func program() commandline.Program {
	return commandline.Program{Name: "aquifer-bench", Description: "Measures an Aquifer node from outside.", Commands: new(commands)}
}

func main() { os.Exit(program().Main()) }
