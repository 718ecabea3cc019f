// Command aquifer-bench measures a node from outside: how fast jobs pass through it, what they cost,
// how it starts with a large backlog, and whether it stays flat over time.
//
// It brings its own target and webhook receiver, keeps account of every job, and compares with a relay
// that makes the same HTTP hops and keeps nothing, in the same run. It listens on the loopback
// interface only, ends every process it starts, and removes its files. It judges what must always hold
// (no job lost, none done twice); speed it reports.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the command line.
type commands struct {
	E2E     e2eCmd     `cmd:"" name:"e2e" help:"Measure the whole path against the relay."`
	Gate    gateCmd    `cmd:"" help:"Measure both durability modes and set the figures beside what they must reach."`
	Backlog backlogCmd `cmd:"" help:"Measure a restart with very many queued jobs, and the accept rate beside them."`
	Soak    soakCmd    `cmd:"" help:"Run for long with restarts, and judge whether the node stays flat."`

	Sinks sinksCmd `cmd:"" hidden:"" help:"The target and the webhook receiver, as e2e starts them."`
	Relay relayCmd `cmd:"" hidden:"" help:"The relay, as e2e starts it."`
}

// streams are where a command writes: results to out, progress to err.
type streams struct{ out, err io.Writer }

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// execute runs the command that args name and returns the exit code.
func execute(ctx context.Context, args []string, s streams) int {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("aquifer-bench"),
		kong.Description("Measures an Aquifer node from outside."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s, slog.New(slog.NewTextHandler(s.err, nil))),
	)
	if err != nil {
		fmt.Fprintln(s.err, "aquifer-bench:", err)
		return exitUsage
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(s.err, "aquifer-bench:", err)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(s.err, "aquifer-bench:", err)
		return exitFailed
	}
	return 0
}
