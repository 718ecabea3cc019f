package client

import (
	"encoding/base64"
	"fmt"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Job is a job as a node shows it. Times are Unix milliseconds.
type Job struct {
	JobID         string            `json:"job_id"`
	Status        job.Status        `json:"status"`
	UserID        string            `json:"user_id"`
	URL           string            `json:"url"`
	PoolID        string            `json:"pool_id"`
	Method        string            `json:"method"`
	Headers       map[string]string `json:"headers"` // secrets redacted
	WebhookURL    string            `json:"webhook_url"`
	CreatedAt     int64             `json:"created_at"`
	ExecuteBefore int64             `json:"execute_before"` // 0 if unset
	MaxRetries    int               `json:"max_retries"`
	TimeoutMS     *int64            `json:"timeout_ms"` // nil: the target's own
	Reason        string            `json:"reason"`     // why it failed
	RedriveOf     string            `json:"redrive_of"`
	Attempts      []Attempt         `json:"attempts"`
	Webhook       Webhook           `json:"webhook"`
	Result        *Result           `json:"result"` // nil until the job has ended
}

// Attempt is one try at the target.
type Attempt struct {
	Number         int            `json:"number"` // from 1
	StartedAt      int64          `json:"started_at"`
	DurationMS     int64          `json:"duration_ms"`
	ResponseStatus int            `json:"response_status"` // 0: no answer
	Error          job.ErrorClass `json:"error"`
	Late           bool           `json:"late"`
	MaybeExecuted  bool           `json:"maybe_executed"`
	RetryAfter     string         `json:"retry_after"` // as the target sent it
	RetryWaitMS    int64          `json:"retry_wait_ms"`
}

// Webhook is where the delivery of the result stands.
type Webhook struct {
	State       job.WebhookState `json:"state"`
	Attempts    int              `json:"attempts"`
	LastStatus  int              `json:"last_status"` // 0: none
	LastError   job.ErrorClass   `json:"last_error"`
	DeliveredAt int64            `json:"delivered_at"`
}

// Result is what the deciding attempt brought.
type Result struct {
	ResponseStatus int    `json:"response_status"` // 0: no answer
	ContentType    string `json:"content_type"`
	Body           string `json:"body"` // see Bytes
	BodyEncoding   string `json:"body_encoding"`
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
