package client

import (
	"context"
	"encoding/base64"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Submission is a job to submit. Zero fields are left out; the node says what it requires.
type Submission struct {
	UserID         string            `json:"user_id,omitzero"`
	IdempotentKey  string            `json:"idempotent_key,omitzero"`
	URL            string            `json:"url,omitzero"`
	PoolID         string            `json:"pool_id,omitzero"`
	Method         string            `json:"method,omitzero"`
	Headers        map[string]string `json:"headers,omitzero"`
	Body           []byte            `json:"-"` // any bytes
	WebhookURL     string            `json:"webhook_url,omitzero"`
	ExecuteBefore  int64             `json:"execute_before,omitzero"` // Unix ms
	Scope          string            `json:"idempotency_scope,omitzero"`
	MaxRetries     *int              `json:"max_retries,omitzero"`
	TimeoutMS      *int64            `json:"timeout_ms,omitzero"`
	WithDurability string            `json:"-"` // "sync", "flush", or empty for the node's default
}

// Receipt is what became of a submission.
type Receipt struct {
	JobID  string     `json:"job_id"`
	Status job.Status `json:"status"`
	// Duplicate: the key was known, and JobID is its job.
	Duplicate bool `json:"duplicate,omitzero"`
	// PayloadMismatch: the known job asks for something else.
	PayloadMismatch bool `json:"payload_mismatch,omitzero"`
	// ResultKey is where the region has what a known job has answered; empty if nowhere.
	ResultKey string `json:"result_key,omitzero"`
	RedriveOf string `json:"redrive_of,omitzero"`
	// Durability is what a new job has got, "sync" or "flush".
	Durability string `json:"-"`
	// Load is how full the target's queue is; zero for a duplicate.
	Load Load `json:"-"`
}

// Load is how full a target's queue is.
type Load struct {
	ActiveQueues, UpstreamBacklog, QueueBacklog int
	Pressure                                    float64 // 0..1
}

// Submit submits a job.
func (c *Client) Submit(ctx context.Context, s Submission) (Receipt, error) {
	q := request{
		method: http.MethodPost, path: "/jobs", body: wireOf(s),
		// Tells net/http that the request may be repeated on a fresh connection; nothing is sent.
		header: http.Header{"Idempotency-Key": nil},
	}
	if s.WithDurability != "" {
		q.header.Set("X-Aqueduct-Durability", s.WithDurability)
	}
	return c.receipt(ctx, q)
}

// Redrive runs an ended job again, as a new one.
func (c *Client) Redrive(ctx context.Context, id string) (Receipt, error) {
	return c.receipt(ctx, request{method: http.MethodPost, path: pathOf(id) + "/redrive"})
}

// RedriveWebhook owes the result of an ended job to its webhook again.
func (c *Client) RedriveWebhook(ctx context.Context, id string) error {
	_, err := c.call(ctx, request{method: http.MethodPost, path: pathOf(id) + "/webhook/redrive"}, &struct{}{})
	return err
}

func (c *Client) receipt(ctx context.Context, q request) (Receipt, error) {
	var r Receipt
	h, err := c.call(ctx, q, &r)
	if err != nil {
		return Receipt{}, err
	}
	r.Durability = header(h, "Durability")
	r.Load = Load{
		ActiveQueues:    number(h, "Active-Queues"),
		UpstreamBacklog: number(h, "Upstream-Backlog"),
		QueueBacklog:    number(h, "Queue-Backlog"),
	}
	r.Load.Pressure, _ = strconv.ParseFloat(header(h, "Admission-Pressure"), 64) // informational
	return r, nil
}

func number(h http.Header, name string) int {
	n, _ := strconv.Atoi(header(h, name)) // informational
	return n
}

// wire is a submission as it goes out. A body is text if it can be.
type wire struct {
	Submission
	Text   string `json:"body,omitzero"`
	Base64 string `json:"body_base64,omitzero"`
}

func wireOf(s Submission) wire {
	w := wire{Submission: s}
	if utf8.Valid(s.Body) {
		w.Text = string(s.Body)
	} else {
		w.Base64 = base64.StdEncoding.EncodeToString(s.Body)
	}
	return w
}

func pathOf(id string) string { return "/jobs/" + url.PathEscape(id) }

// Get returns a job.
func (c *Client) Get(ctx context.Context, id string) (Job, error) {
	var j Job
	_, err := c.call(ctx, request{method: http.MethodGet, path: pathOf(id)}, &j)
	return j, err
}

// Query selects jobs to list. Zero fields select everything.
type Query struct {
	UserID  string
	Status  job.Status
	Target  string // host[:port] as in the URL
	Webhook job.WebhookState
	// PageSize is how many jobs to ask for at a time; 0 leaves it to the node.
	PageSize int
}

// List iterates over jobs, the newest first. It fetches page after page as the loop goes on, and
// ends after an error. Listed jobs have no headers, attempts and result.
func (c *Client) List(ctx context.Context, q Query) iter.Seq2[Job, error] {
	params := q.params()
	return func(yield func(Job, error) bool) {
		cursor := ""
		for {
			page, err := c.page(ctx, params, cursor)
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, j := range page.Jobs {
				if !yield(j, nil) {
					return
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				return
			}
		}
	}
}

type page struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor"`
}

func (c *Client) page(ctx context.Context, params url.Values, cursor string) (page, error) {
	if cursor != "" {
		params.Set("cursor", cursor)
	}
	var p page
	_, err := c.call(ctx, request{method: http.MethodGet, path: "/jobs", query: params}, &p)
	return p, err
}

func (q Query) params() url.Values {
	params := url.Values{}
	for name, value := range map[string]string{
		"user_id": q.UserID, "status": string(q.Status), "target": q.Target, "webhook": string(q.Webhook),
	} {
		if value != "" {
			params.Set(name, value)
		}
	}
	if q.PageSize != 0 {
		params.Set("limit", strconv.Itoa(q.PageSize))
	}
	return params
}
