package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"text/tabwriter"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// maxPage is how many jobs a node lists at a time.
const maxPage = 200

// listCommand lists jobs.
type listCommand struct {
	User   string    `help:"Only jobs of this tenant." placeholder:"NAME"`
	Status string    `help:"Only jobs in this status: queued, completed or failed." placeholder:"STATUS"`
	To     string    `name:"target" help:"Only jobs for this target, as in their URL." placeholder:"HOST[:PORT]"`
	Hook   string    `name:"webhook" help:"Only jobs whose delivery is in this state: none, pending, delivered, rejected, failed or skipped." placeholder:"STATE"`
	Limit  int       `default:"20" help:"How many at most (default: ${default})." placeholder:"N"`
	JSON   bool      `name:"json" help:"Print each job as a line of JSON."`
	Target nodeFlags `embed:""`
}

func (c *listCommand) Run(p *process) error {
	if c.Limit < 1 {
		return fail(exitUsage, "--limit must be at least 1, got %d", c.Limit)
	}
	if s := job.Status(c.Status); c.Status != "" && s != job.Queued && s != job.Completed && s != job.Failed {
		return fail(exitUsage, "--status must be queued, completed or failed, got %q", c.Status)
	}
	if states := job.WebhookStates(); c.Hook != "" && !slices.Contains(states, job.WebhookState(c.Hook)) {
		return fail(exitUsage, "--webhook must be one of %v, got %q", states, c.Hook)
	}
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	found := node.List(context.Background(), client.Query{
		UserID: c.User, Status: job.Status(c.Status), Target: c.To, Webhook: job.WebhookState(c.Hook),
		PageSize: min(c.Limit, maxPage-1) + 1,
	})
	if c.JSON {
		_, err = c.each(found, func(j client.Job) error { return printJSON(p.stdout, j) })
		return err
	}
	return c.table(p, found)
}

// each calls show for jobs up to the limit. more reports that there are others behind them.
func (c *listCommand) each(found iter.Seq2[client.Job, error], show func(client.Job) error) (more bool, err error) {
	shown := 0
	for j, err := range found {
		if err != nil {
			return false, c.Target.explain(err)
		}
		if shown == c.Limit {
			return true, nil
		}
		if err := show(j); err != nil {
			return false, err
		}
		shown++
	}
	return false, nil
}

func (c *listCommand) table(p *process, found iter.Seq2[client.Job, error]) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	none := true
	more, err := c.each(found, func(j client.Job) error {
		if none {
			none = false
			_, _ = fmt.Fprintln(w, "JOB\tCREATED\tSTATUS\tWEBHOOK\tUSER\tCALL") // tabwriter keeps it until Flush
		}
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n",
			j.JobID, date(j.CreatedAt), j.Status, j.Webhook.State, plain(j.UserID), callOf(j))
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	switch {
	case err != nil:
		return err
	case none:
		_, err = fmt.Fprintln(p.stderr, "no such jobs")
	case more:
		_, err = fmt.Fprintln(p.stderr, "there are more; raise --limit or narrow the list")
	}
	return err
}

func (*listCommand) examples() string {
	return `Examples:
  aquifer job list
  aquifer job list --status failed --target api.example.com --limit 100
  aquifer job list --webhook failed
  aquifer job list --user alice --json | jq -r .job_id
`
}
