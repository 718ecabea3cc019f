package api

import (
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// summary is a job as it stands in a list. Times are Unix milliseconds.
type summary struct {
	JobID         string      `json:"job_id"`
	Status        job.Status  `json:"status"`
	UserID        string      `json:"user_id"`
	URL           string      `json:"url"` // empty for a pool job
	PoolID        string      `json:"pool_id,omitempty"`
	Method        string      `json:"method"`
	WebhookURL    string      `json:"webhook_url"`
	CreatedAt     int64       `json:"created_at"`
	ExecuteBefore int64       `json:"execute_before"` // 0 if unset
	MaxRetries    int         `json:"max_retries"`
	TimeoutMS     *int64      `json:"timeout_ms,omitempty"` // absent: the target's own
	Reason        string      `json:"reason,omitempty"`     // why it failed
	RedriveOf     string      `json:"redrive_of,omitempty"`
	Webhook       webhookView `json:"webhook"`
}

// detail is a job with everything that may be shown of it.
type detail struct {
	summary
	Headers  map[string]string `json:"headers"`           // secrets redacted
	Waiting  *waiting          `json:"waiting,omitempty"` // absent unless the job waits
	Attempts []attemptView     `json:"attempts"`
	Result   *resultView       `json:"result,omitempty"` // absent until the job has ended
}

type webhookView struct {
	State       job.WebhookState `json:"state"`
	Attempts    int              `json:"attempts"`
	LastStatus  int              `json:"last_status"` // 0: no answer yet, or none to the last try
	LastError   job.ErrorClass   `json:"last_error,omitempty"`
	DeliveredAt int64            `json:"delivered_at,omitempty"`
}

type attemptView struct {
	Number         int            `json:"number"`
	StartedAt      int64          `json:"started_at"`
	DurationMS     int64          `json:"duration_ms"`
	ResponseStatus int            `json:"response_status"` // 0: no answer
	Error          job.ErrorClass `json:"error,omitempty"`
	Late           bool           `json:"late,omitempty"`
	MaybeExecuted  bool           `json:"maybe_executed,omitempty"`
	RetryAfter     string         `json:"retry_after,omitempty"` // as the target sent it
	RetryWaitMS    int64          `json:"retry_wait_ms,omitempty"`
}

type resultView struct {
	ResponseStatus int    `json:"response_status"` // 0: no answer
	ContentType    string `json:"content_type"`
	Body           string `json:"body"`
	BodyEncoding   string `json:"body_encoding,omitempty"`
	BodyTruncated  bool   `json:"body_truncated"`
}

// show shows a job.
func (f look) show(w http.ResponseWriter, r *http.Request) int {
	id, err := idOf(r)
	if err != nil {
		return f.fail(w, r, err)
	}
	s, err := f.Jobs.Get(r.Context(), id)
	if err != nil {
		return f.elsewhere(w, r, id, err)
	}
	v := detailOf(s)
	v.Waiting = f.waitingOf(r.Context(), s)
	return writeJSON(w, http.StatusOK, v)
}

func summaryOf(s job.Snapshot) summary {
	r := &s.Job.Request
	v := summary{
		JobID: s.Job.ID.String(), Status: s.State.Phase(), UserID: r.UserID, URL: r.URL, PoolID: r.PoolID,
		Method: r.Method, WebhookURL: r.WebhookURL, CreatedAt: s.Job.CreatedAt, ExecuteBefore: r.ExecuteBefore,
		MaxRetries: r.MaxRetries, Reason: s.State.Reason,
		Webhook: webhookView{
			State: s.Webhook.Phase(), Attempts: s.Webhook.Attempts, LastStatus: s.Webhook.LastStatus,
			LastError: s.Webhook.LastError, DeliveredAt: s.Webhook.DeliveredAt,
		},
	}
	if r.TimeoutMS != job.UnsetTimeout {
		v.TimeoutMS = &r.TimeoutMS
	}
	if !s.Job.RedriveOf.IsZero() {
		v.RedriveOf = s.Job.RedriveOf.String()
	}
	return v
}

func detailOf(s job.Snapshot) detail {
	v := detail{summary: summaryOf(s), Headers: s.Job.Request.Shown(), Attempts: make([]attemptView, len(s.State.Attempts))}
	for i, a := range s.State.Attempts {
		v.Attempts[i] = attemptView{
			Number: a.Number, StartedAt: a.StartedAt, DurationMS: a.DurationMS, ResponseStatus: a.Status,
			Error: a.Error, Late: a.Late, MaybeExecuted: a.MaybeExecuted, RetryAfter: a.RetryAfter, RetryWaitMS: a.RetryWaitMS,
		}
	}
	if s.State.Phase().Ended() {
		v.Result = resultOf(s.State)
	}
	return v
}

// resultOf shows what the deciding attempt brought, which may be nothing.
func resultOf(s job.State) *resultView {
	shown := s.Result.Show(nil)
	v := &resultView{
		ResponseStatus: s.ResponseStatus(), Body: shown.Body, BodyEncoding: shown.BodyEncoding, BodyTruncated: shown.BodyTruncated,
	}
	if s.Result != nil {
		v.ContentType = s.Result.ContentType
	}
	return v
}
