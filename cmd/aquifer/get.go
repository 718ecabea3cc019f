package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// getCommand shows one job.
type getCommand struct {
	ID     string    `arg:"" name:"id" help:"Id of the job."`
	JSON   bool      `name:"json" xor:"form" help:"Print the job as JSON."`
	Body   bool      `xor:"form" help:"Print nothing but the body of the result, byte for byte."`
	Target nodeFlags `embed:""`
}

func (c *getCommand) Run(p *process) error {
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	j, err := node.Get(context.Background(), c.ID)
	switch {
	case err != nil:
		return c.Target.explain(err)
	case c.JSON:
		return printJSON(p.stdout, j, jsontext.Multiline(true))
	case c.Body:
		return printBody(p.stdout, j)
	default:
		_, err = io.WriteString(p.stdout, describe(j))
		return err
	}
}

func printBody(w io.Writer, j client.Job) error {
	if j.Result == nil {
		return fail(exitFailed, "the job has no result: it is %s", j.Status)
	}
	body, err := j.Result.Bytes()
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// describe tells all about a job, for people.
func describe(j client.Job) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	row("job", "%s", j.JobID)
	row("status", "%s %s", j.Status, because(j.Reason))
	row("call", "%s", callOf(j))
	row("user", "%s", plain(j.UserID))
	row("created", "%s", date(j.CreatedAt))
	if j.ExecuteBefore != 0 {
		row("before", "%s", date(j.ExecuteBefore))
	}
	if j.RedriveOf != "" {
		row("rerun of", "%s", j.RedriveOf)
	}
	row("webhook", "%s", webhookOf(j))
	for _, a := range j.Attempts {
		row("attempt", "%s", attemptOf(a))
	}
	if r := j.Result; r != nil {
		row("result", "status %d %s", r.ResponseStatus, plain(r.ContentType))
		row("body", "%s", bodyOf(r))
	}
	return b.String()
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return "(" + plain(reason) + ")"
}

func callOf(j client.Job) string {
	target := j.URL
	if j.PoolID != "" {
		target = "pool " + j.PoolID
	}
	return plain(j.Method + " " + target)
}

func webhookOf(j client.Job) string {
	w := j.Webhook
	text := fmt.Sprintf("%s, to %s", w.State, plain(j.WebhookURL))
	if w.Attempts > 0 {
		text += ", " + plural(w.Attempts, "attempt")
	}
	if w.LastStatus != 0 {
		text += fmt.Sprintf(", last status %d", w.LastStatus)
	}
	if w.LastError != "" {
		text += fmt.Sprintf(", last error %s", w.LastError)
	}
	return text
}

func attemptOf(a client.Attempt) string {
	text := fmt.Sprintf("%d at %s, ", a.Number, date(a.StartedAt))
	if a.Error != "" {
		text += string(a.Error)
	} else {
		text += fmt.Sprintf("status %d", a.ResponseStatus)
	}
	text += fmt.Sprintf(" after %d ms", a.DurationMS)
	if a.Late {
		text += ", too late to count"
	}
	if a.RetryWaitMS > 0 {
		text += fmt.Sprintf(", then a wait of %s", time.Duration(a.RetryWaitMS)*time.Millisecond)
	}
	return text
}

func bodyOf(r *client.Result) string {
	text := excerpt(r.Body, r.BodyEncoding)
	if r.BodyTruncated {
		text += " (the node kept no more)"
	}
	return text
}

// date is a local date and time of day, of Unix milliseconds.
func date(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000") }

func (*getCommand) examples() string {
	return `Examples:
  aquifer job get ID
  aquifer job get ID --json | jq .attempts
  aquifer job get ID --body > answer.json

A job is kept for a while after its end (AQUIFER_COMPLETED_TTL_SECONDS, AQUIFER_FAILED_TTL_SECONDS of
the node); after that, and if there never was such a job, the exit code is 4.
`
}
