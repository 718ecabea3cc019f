package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// commands is the command line. A command's Run does its work and returns a failure or nil.
type commands struct {
	Version versionFlag `help:"Print the version and exit."`

	Serve serveCommand   `cmd:"" default:"1" help:"Run a node. This is also what aquifer alone does."`
	Demo  demoCommand    `cmd:"" help:"Watch a burst of jobs being accepted at once and released at pace."`
	Job   jobCommand     `cmd:"" help:"Give jobs to a node and see what became of them."`
	Nodes clusterCommand `cmd:"" name:"cluster" help:"Show the nodes of a cluster, and who answers for a tenant."`
	Check healthCommand  `cmd:"" name:"health" help:"Tell whether a node is well, by the exit code."`
	Sink  sinkCommand    `cmd:"" help:"Answer every request and print it: a target and a webhook receiver to try a node with."`
	Conf  configCommand  `cmd:"" name:"config" help:"Print the settings that a node would run with."`
	Vers  versionCommand `cmd:"" name:"version" help:"Print the version."`
}

// run is the whole program.
func run(p *process) exitCode {
	var cli commands
	var answered bool // --help or --version has done all there is to do
	parser, err := kong.New(&cli,
		kong.Name("aquifer"),
		kong.Description(description),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { answered = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Help(teach),
		kong.Bind(p),
	)
	if err != nil {
		return report(p.stderr, err)
	}
	ctx, err := parser.Parse(usualStyle(p.args))
	switch {
	case answered:
		return exitDone
	case err != nil:
		return reportUsage(p.stderr, err)
	}
	return report(p.stderr, ctx.Run(p))
}

// usualStyle takes what other programs call these: -version as Go programs do, help as a command.
func usualStyle(args []string) []string {
	switch {
	case len(args) == 1 && args[0] == "-version":
		return []string{"--version"}
	case len(args) > 0 && args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	default:
		return args
	}
}

// reportUsage tells what is wrong with the command line and where its help is.
func reportUsage(stderr io.Writer, err error) exitCode {
	command := "aquifer"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		command = parse.Context.Selected().FullPath()
	}
	_, _ = fmt.Fprintf(stderr, "aquifer: %v\nSee %s --help.\n", err, command)
	return exitUsage
}
