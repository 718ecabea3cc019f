package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// submitCommand submits one job, from flags or from JSON.
type submitCommand struct {
	From string `arg:"" optional:"" name:"-" help:"Read the job as JSON, as POST /jobs takes it, from standard input."`

	Job    jobFlags  `embed:"" group:"The job:"`
	Sync   bool      `help:"Wait until the job is on disk, whatever the node's own setting is."`
	Wait   bool      `help:"Follow the job to its end. The exit code is 3 if it failed, 2 if the key belongs to a job that asks for something else."`
	JSON   bool      `name:"json" help:"Print the node's answer, and with --wait the events, as JSON."`
	Target nodeFlags `embed:""`
}

// jobFlags are a job in flags. All zero means that none was given.
type jobFlags struct {
	URL        string         `name:"url" help:"Address to call. Required." placeholder:"URL"`
	Method     string         `help:"HTTP method (default: POST with a body, else GET)." placeholder:"METHOD"`
	User       string         `help:"Tenant that the job belongs to (default: cli)." placeholder:"NAME"`
	Key        string         `help:"Idempotency key: the node accepts one job for each user and key (default: random)." placeholder:"TEXT"`
	Webhook    string         `help:"Address that gets the result, unless a stream has taken it; a job that ends before the stream is open may still send it. Required." placeholder:"URL"`
	Header     []string       `sep:"none" help:"Header of the call, such as 'Accept: text/plain'. May be repeated." placeholder:"'NAME: VALUE'"`
	Body       string         `xor:"body" help:"Body of the call." placeholder:"TEXT"`
	BodyFile   string         `xor:"body" help:"File with the body of the call; - is standard input." placeholder:"PATH"`
	MaxRetries *int           `help:"Retries after a failed attempt: 0 to 100, or -1 for until success (default: 4)." placeholder:"N"`
	Timeout    *time.Duration `help:"Limit of one attempt, such as 30s; 0 for none (default: the target's)." placeholder:"TIME"`
}

func (c *submitCommand) Run(p *process) error {
	s, err := c.submission(p.stdin)
	if err != nil {
		return err
	}
	if c.Sync {
		s.WithDurability = "sync"
	}
	node, err := c.Target.client()
	if err != nil {
		return err
	}
	receipt, err := node.Submit(context.Background(), s)
	if err != nil {
		return c.Target.explain(err)
	}
	if err := c.printReceipt(p, receipt); err != nil || !c.Wait {
		return err
	}
	if receipt.PayloadMismatch {
		return &failure{code: exitUsage} // what there is to follow is another job; the note has said so
	}
	return follow(p.stdout, node.Watch(context.Background(), receipt.JobID, fromStart), c.JSON, c.Target)
}

// printReceipt puts the id on standard output, where a script finds it alone, and the rest on
// standard error.
func (c *submitCommand) printReceipt(p *process, r client.Receipt) error {
	if c.JSON {
		return printJSON(p.stdout, r)
	}
	note := "accepted; follow it with: aquifer job watch " + r.JobID
	switch {
	case r.PayloadMismatch:
		note = fmt.Sprintf("nothing new accepted: the key belongs to a %s job that asks for something else", r.Status)
	case r.Duplicate:
		note = fmt.Sprintf("nothing new accepted: the key belongs to this job, which is %s", r.Status)
	case c.Wait:
		note = "accepted"
	}
	if _, err := fmt.Fprintln(p.stderr, note); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.stdout, r.JobID)
	return err
}

// submission makes the job from the flags, or from stdin.
func (c *submitCommand) submission(stdin io.Reader) (client.Submission, error) {
	flagged := !reflect.ValueOf(c.Job).IsZero()
	switch {
	case c.From == "" && !flagged:
		return client.Submission{}, fail(exitUsage, "no job given: use --url and --webhook, or - for JSON on standard input\nSee aquifer job submit --help.")
	case c.From == "":
		return c.Job.submission(stdin)
	case c.From != "-":
		return client.Submission{}, fail(exitUsage, "unexpected argument %q: the only one is - for JSON on standard input", c.From)
	case flagged:
		return client.Submission{}, fail(exitUsage, "- takes the whole job from standard input; flags that describe a job cannot stand beside it")
	default:
		return readSubmission(stdin)
	}
}

func (f *jobFlags) submission(stdin io.Reader) (client.Submission, error) {
	body, err := f.body(stdin)
	if err != nil {
		return client.Submission{}, err
	}
	headers, err := headersOf(f.Header)
	if err != nil {
		return client.Submission{}, err
	}
	s := client.Submission{
		UserID: f.User, IdempotentKey: f.Key, URL: f.URL, Method: f.Method,
		Headers: headers, Body: body, WebhookURL: f.Webhook, MaxRetries: f.MaxRetries,
	}
	if s.UserID == "" {
		s.UserID = "cli"
	}
	if s.IdempotentKey == "" {
		s.IdempotentKey = rand.Text()
	}
	if s.Method == "" {
		s.Method = "GET"
		if len(body) > 0 {
			s.Method = "POST"
		}
	}
	if f.Timeout != nil {
		ms := f.Timeout.Milliseconds()
		s.TimeoutMS = &ms
	}
	return s, nil
}

func (f *jobFlags) body(stdin io.Reader) (body []byte, err error) {
	switch f.BodyFile {
	case "":
		return []byte(f.Body), nil
	case "-":
		body, err = io.ReadAll(stdin)
	default:
		body, err = os.ReadFile(f.BodyFile)
	}
	if err != nil {
		return nil, fail(exitUsage, "--body-file: %w", err)
	}
	return body, nil
}

// headersOf reads headers as HTTP writes them.
func headersOf(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	headers := make(map[string]string, len(list))
	for _, h := range list {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return nil, fail(exitUsage, "--header must be 'Name: value', got %q", h)
		}
		if _, twice := headers[name]; twice {
			return nil, fail(exitUsage, "--header %s is given twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// jobFields are the names that POST /jobs takes.
const jobFields = "user_id, idempotent_key, idempotency_scope, method, url, headers, body, body_base64, webhook_url, " +
	"max_retries, timeout_ms, execute_before"

// readSubmission reads a job as POST /jobs takes it. Unlike a node it refuses names that it does not
// know: on a command line they are mistakes in typing.
func readSubmission(r io.Reader) (client.Submission, error) {
	var in struct {
		client.Submission
		Text   string `json:"body"`
		Base64 []byte `json:"body_base64"`
	}
	raw, err := io.ReadAll(r)
	if err == nil {
		_, err = job.Parse(raw, job.Hints{})
	}
	if err == nil {
		err = json.Unmarshal(raw, &in, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return client.Submission{}, fail(exitUsage, "the job on standard input: %s", jobFault(err))
	}
	if in.Text != "" && in.Base64 != nil {
		return client.Submission{}, fail(exitUsage, "the job on standard input: body and body_base64 exclude each other")
	}
	in.Body = in.Base64
	if in.Text != "" {
		in.Body = []byte(in.Text)
	}
	return in.Submission, nil
}

// jobFault says in a user's words why JSON is no job.
func jobFault(err error) string {
	var refusal *fault.Error
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &refusal):
		return plain(refusal.Detail)
	case errors.As(err, &wrong) && errors.Is(wrong.Err, json.ErrUnknownName):
		return fmt.Sprintf("%s is not a field of a job; those are %s", plain(wrong.JSONPointer.LastToken()), jobFields)
	case errors.As(err, &wrong) && wrong.JSONPointer == "/body_base64":
		return fmt.Sprintf("body_base64 must be standard base64 with padding and without line breaks: %v", wrong.Err)
	default:
		return err.Error()
	}
}

func (*submitCommand) examples() string {
	return `Examples:
  aquifer job submit --url https://example.com/ --webhook https://example.com/hook --wait
  aquifer job submit --url https://api.example.com/v1/x --webhook https://example.com/hook \
      --user alice --key order-17 --header 'Authorization: Bearer ...' --body-file order.json
  echo '{"user_id":"alice","idempotent_key":"order-17","method":"GET",
         "url":"https://example.com/","webhook_url":"https://example.com/hook"}' | aquifer job submit -

Without --wait the id of the job is all that is written to standard output. Sending the same --user
and --key again is safe: it answers with the job that is there.

Try next: aquifer job watch ID, aquifer job get ID
`
}
