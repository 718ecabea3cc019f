package client

import (
	"encoding/base64"
	"fmt"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Job is a job as a node shows it, and in JSON again in the node's own form: a field that the node left
// out stays out. Times are Unix milliseconds.
type Job struct {
	JobID         string            `json:"job_id"`
	Status        job.Status        `json:"status"`
	UserID        string            `json:"user_id"`
	URL           string            `json:"url"`
	PoolID        string            `json:"pool_id,omitzero"`
	Method        string            `json:"method"`
	WebhookURL    string            `json:"webhook_url"`
	CreatedAt     int64             `json:"created_at"`
	ExecuteBefore int64             `json:"execute_before"` // 0 if unset
	MaxRetries    int               `json:"max_retries"`
	TimeoutMS     *int64            `json:"timeout_ms,omitzero"` // nil: the target's own
	Reason        string            `json:"reason,omitzero"`     // why it failed
	RedriveOf     string            `json:"redrive_of,omitzero"`
	Webhook       Webhook           `json:"webhook"`
	Headers       map[string]string `json:"headers,omitzero"`  // secrets redacted; nil in a list
	Waiting       *Waiting          `json:"waiting,omitzero"`  // nil unless the job waits, and in a list
	Attempts      []Attempt         `json:"attempts,omitzero"` // nil in a list
	Result        *Result           `json:"result,omitzero"`   // nil until the job has ended
}

// Waiting is why a job does not run, and when it may.
type Waiting struct {
	For      string `json:"for"`               // one of the reasons of the reference
	Position int    `json:"position,omitzero"` // in its queue, 1 is next; 0 while it is not there
	ETAMS    int64  `json:"eta_ms"`            // estimated, until its turn; 0 also if nobody can tell
	Since    int64  `json:"since"`             // Unix ms
}

// Attempt is one try at the target.
type Attempt struct {
	Number         int            `json:"number"` // from 1
	StartedAt      int64          `json:"started_at"`
	DurationMS     int64          `json:"duration_ms"`
	ResponseStatus int            `json:"response_status"` // 0: no answer
	Error          job.ErrorClass `json:"error,omitzero"`
	Late           bool           `json:"late,omitzero"`
	MaybeExecuted  bool           `json:"maybe_executed,omitzero"`
	RetryAfter     string         `json:"retry_after,omitzero"` // as the target sent it
	RetryWaitMS    int64          `json:"retry_wait_ms,omitzero"`
}

// Webhook is where the delivery of the result stands.
type Webhook struct {
	State       job.WebhookState `json:"state"`
	Attempts    int              `json:"attempts"`
	LastStatus  int              `json:"last_status"` // 0: none
	LastError   job.ErrorClass   `json:"last_error,omitzero"`
	DeliveredAt int64            `json:"delivered_at,omitzero"`
}

// Result is what the deciding attempt brought.
type Result struct {
	ResponseStatus int    `json:"response_status"` // 0: no answer
	ContentType    string `json:"content_type"`
	Body           string `json:"body"` // see Bytes
	BodyEncoding   string `json:"body_encoding,omitzero"`
	BodyTruncated  bool   `json:"body_truncated"`
}

// Bytes returns the body byte for byte as the target sent it, as far as it was kept.
func (r *Result) Bytes() ([]byte, error) { return bodyBytes(r.Body, r.BodyEncoding) }

// bodyBytes undoes what makes a body JSON text.
func bodyBytes(text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case job.EncodingBase64:
		return base64.StdEncoding.DecodeString(text)
	default:
		return nil, fmt.Errorf("unknown body encoding %q", encoding)
	}
}
