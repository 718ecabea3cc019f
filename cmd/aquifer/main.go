// Command aquifer runs an Aquifer node, talks to one, and shows what one does.
//
// It is the shell around package node: it reads the command line, the environment and the signals,
// turns how a command ended into an exit code, and decides nothing about jobs itself. README.md one
// folder up is the reference of its commands.
package main

import (
	"io"
	"os"
)

func main() {
	hostname, _ := os.Hostname() // a node without a name refuses to start and says so
	p := &process{
		args:     os.Args[1:],
		environ:  os.Environ(),
		hostname: hostname,
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		exit:     os.Exit,
	}
	os.Exit(int(run(p)))
}

// process is what the operating system gives to a command.
type process struct {
	args    []string // without the program's name
	environ []string // as os.Environ returns it
	// hostname names the node if nothing else does; empty if the machine has no name.
	hostname string
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	// exit ends the process at once, for a second signal.
	exit func(code int)
}
