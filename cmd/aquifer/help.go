package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

const description = `Takes HTTP jobs, keeps them on disk, and sends them to each target no faster ` +
	`than it wants, fairly between tenants. Results come by stream, by webhook, or on request.`

const firstSteps = `Start here:
  aquifer demo                          see it work; needs nothing else
  aquifer                               run a node on port 8080, with its store in ./aquifer.db
  aquifer job submit --url URL --webhook URL --wait
                                        give it a job and follow the job to its end
  aquifer config                        every setting, with its value

A node is set up by environment variables, such as PORT, DB_PATH and AQUIFER_LOG_LEVEL, and by the
YAML file that CONFIG_PATH names, for the pace of each target. The job commands talk to the node at
AQUIFER_SERVER.

` + exitTable

// teacher is a command whose help ends with examples.
type teacher interface{ examples() string }

// teach prints the help of a command and, below it, what to type.
func teach(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	selected := ctx.Selected()
	if selected == nil {
		return section(ctx.Stdout, firstSteps)
	}
	if t, ok := selected.Target.Addr().Interface().(teacher); ok {
		return section(ctx.Stdout, t.examples())
	}
	return nil
}

func section(w io.Writer, text string) error {
	_, err := fmt.Fprintf(w, "\n%s", text)
	return err
}
