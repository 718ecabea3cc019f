// Package commandline runs the command that the arguments of a program name. It is for the programs that test
// a node from outside: aquifer tells its users more, and has more ways to end.
package commandline

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

// Exit codes; 0 is a command that has done its work.
const (
	Failed = 1
	Usage  = 2
)

// Streams are where a command writes.
type Streams struct {
	Out io.Writer // results
	Err io.Writer // progress, and why it failed
}

// Program is one with commands, to be run once.
type Program struct {
	Name, Description string
	// Commands is a pointer to a struct whose fields are the commands, as kong reads them. The Run of a command
	// may take a context, Streams, and a logger that writes to Err.
	Commands any
}

// Main runs the command that the arguments of the process name and returns the exit code. SIGINT and SIGTERM
// end its context.
func (p Program) Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return p.Execute(ctx, os.Args[1:], Streams{Out: os.Stdout, Err: os.Stderr})
}

// Execute runs the command that args name and returns the exit code.
func (p Program) Execute(ctx context.Context, args []string, s Streams) int {
	exited := -1
	fail := func(code int, err error) int {
		fmt.Fprintf(s.Err, "%s: %v\n", p.Name, err)
		return code
	}
	parser, err := kong.New(p.Commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(s.Out, s.Err),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s, slog.New(slog.NewTextHandler(s.Err, nil))),
	)
	if err != nil {
		return fail(Usage, err)
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		return fail(Usage, err)
	}
	if err := command.Run(); err != nil {
		return fail(Failed, err)
	}
	return 0
}
