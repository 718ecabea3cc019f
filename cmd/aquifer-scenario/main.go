// Command aquifer-scenario runs real fleets of nodes through faults and judges what became of every job.
//
// It starts the nodes, a Valkey, a target and a webhook receiver, puts a fault proxy into every connection
// between them, sends jobs at a steady rate as a client that repeats until it is told yes, and breaks
// things. It listens on the loopback interface only, ends every process it starts by its id, and removes
// its files.
package main

import (
	"os"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// commands is the command line.
type commands struct {
	Chaos chaosCmd `cmd:"" help:"Break a cluster in many ways under load, and judge what became of every job."`
}

func program() commandline.Program {
	return commandline.Program{Name: "aquifer-scenario", Description: "Runs fleets of real nodes through faults.", Commands: new(commands)}
}

func main() { os.Exit(program().Main()) }
