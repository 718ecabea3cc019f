package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/events"
)

// fromStart is the id of the last event that somebody has seen who has seen none: the stream then
// tells all that has happened and not just the latest.
const fromStart = "0"

// watchCommand prints what happens to a job.
type watchCommand struct {
	ID     string    `arg:"" name:"id" help:"Id of the job."`
	JSON   bool      `name:"json" help:"Print each event as a line of JSON."`
	Target nodeFlags `embed:""`
}

func (c *watchCommand) Run(p *process) error {
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	return follow(p.stdout, node.Watch(context.Background(), c.ID, fromStart), c.JSON, c.Target)
}

// follow prints events as they come. It fails if the job did, or if the end did not come.
func follow(w io.Writer, stream iter.Seq2[client.Event, error], asJSON bool, target nodeFlags) error {
	var end string
	for e, err := range stream {
		if err != nil {
			return target.explain(err)
		}
		if err := printEvent(w, e, asJSON); err != nil {
			return err
		}
		if e.Terminal() {
			end = e.Name
		}
	}
	switch end {
	case events.NameCompleted:
		return nil
	case events.NameFailed:
		return &failure{code: exitJobFailed}
	default:
		return fmt.Errorf("the stream of the node at %s ended before the job did", target.Server)
	}
}

func printEvent(w io.Writer, e client.Event, asJSON bool) error {
	if asJSON {
		return printJSON(w, struct {
			ID    string         `json:"id"`
			Event string         `json:"event"`
			Data  jsontext.Value `json:"data"`
		}{e.ID, e.Name, e.Data})
	}
	data, _, err := e.Decode() // an unknown event is told by its name alone
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s  %-11s  %s\n", time.Now().Format("15:04:05.000"), plain(e.Name), tell(data))
	return err
}

// tell says what the data of an event means, on one line.
func tell(data any) string {
	switch d := data.(type) {
	case events.QueuedData:
		return "accepted, waits its turn"
	case events.PositionData:
		return fmt.Sprintf("%d in its queue", d.Position)
	case events.DispatchingData:
		return fmt.Sprintf("attempt %d", d.Attempt)
	case events.RetryingData:
		return fmt.Sprintf("attempt %d failed: %s; the next is due at %s", d.Attempt, plain(d.Reason), clock(d.RetryAt))
	case events.CompletedData:
		return fmt.Sprintf("status %d, %s", d.ResponseStatus, excerpt(d.Body, d.BodyEncoding))
	case events.FailedData:
		return tellFailed(d)
	case events.GapData:
		return fmt.Sprintf("events are missing here: %s", d.Reason)
	case events.ReroutedData:
		return "to region " + plain(d.Region)
	case events.ProxyFallbackData:
		return "joins the queue: " + plain(d.Reason)
	default:
		return ""
	}
}

func tellFailed(d events.FailedData) string {
	text := plain(d.Reason)
	if d.Attempts > 0 {
		text += fmt.Sprintf(", after %s", plural(d.Attempts, "attempt"))
	}
	if d.ResponseStatus != 0 {
		text += fmt.Sprintf("; status %d, %s", d.ResponseStatus, excerpt(d.Body, d.BodyEncoding))
	}
	return text
}

func (*watchCommand) examples() string {
	return `Examples:
  aquifer job watch 019a0c6f3b2e5d1c4a7f00112233aabb
  aquifer job watch ID --json | jq .event

Each event is printed as it comes, after the local time of its arrival. A stream that breaks is taken
up again where it broke. A job that ended before is told from its start.

The exit code is 0 if the job completed, whatever its status was, 3 if it failed, and 4 if there is no
such job. A job that a watcher has taken the result of owes no webhook.

Try next: aquifer job get ID for the whole result
`
}
