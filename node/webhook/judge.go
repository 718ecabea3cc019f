package webhook

import (
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Policy says how long a delivery is tried.
type Policy struct {
	// MaxAttempts is how many attempts a delivery may make in all. Higher: results survive longer
	// outages of their receivers and stay on disk longer.
	MaxAttempts int
	// BackoffMax bounds the wait that the back-off asks for, RetryAfterMax the one that a receiver
	// does.
	BackoffMax, RetryAfterMax time.Duration
}

// DefaultMaxAttempts is one attempt and four retries, as a job has.
const DefaultMaxAttempts = 1 + job.DefaultMaxRetries

// Reply is what became of one attempt.
type Reply struct {
	Status int            // the receiver's HTTP status; 0 if it gave none
	Class  job.ErrorClass // why there is no answer, or no whole one; empty otherwise
	Header http.Header    // of the answer
}

// verdict is what a reply means for its delivery.
type verdict uint8

const (
	delivered verdict = iota + 1
	rejected          // the receiver does not want it
	hopeless          // no other attempt would get further
	again             // try again
)

// judge says what a reply means, by the table in the package comment, and what it says about pace.
// The status decides when there is one, whatever happened to the rest of the answer: nobody reads
// that.
func judge(r Reply, now time.Time) (verdict, pace.Signal) {
	v := again
	switch {
	case r.Status == 0 && r.Class.Final():
		v = hopeless
	case r.Status == 0 || retried(r.Status):
	case r.Status >= 200 && r.Status <= 299:
		v = delivered
	default:
		v = rejected
	}
	signal := pace.ReadSignal(r.Status, v == again, r.Header, now)
	if v == again && signal.NoRetry {
		v = rejected
	}
	return v, signal
}

// retried reports whether a delivery that was answered with this status is tried again.
func retried(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

// next is the delivery after an attempt: settled, or due again. jitter is uniform from 0 to 1.
func (p Policy) next(w job.Webhook, r Reply, now time.Time, jitter float64) (job.Webhook, pace.Signal) {
	v, signal := judge(r, now)
	signal.RetryAfter = signal.RetryAfter.UpTo(p.RetryAfterMax)
	w.Attempts++
	w.LastStatus, w.LastError = r.Status, ""
	if r.Status == 0 {
		w.LastError = r.Class
	}
	w.Order, w.DueAt = 0, 0
	switch {
	case v == delivered:
		w.State, w.DeliveredAt = job.WebhookDelivered, now.UnixMilli()
	case v == rejected:
		w.State = job.WebhookRejected
	case v == hopeless || w.Attempts >= p.MaxAttempts:
		w.State = job.WebhookFailed
	default:
		wait := signal.RetryAfter.Or(pace.Backoff(w.Attempts-1, p.BackoffMax, jitter), p.RetryAfterMax)
		w.State, w.DueAt = job.WebhookPending, now.Add(wait).UnixMilli()
	}
	return w, signal
}
