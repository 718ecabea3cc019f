package worker

import (
	"bytes"
	"strings"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Policy is what a node decides about attempts and results.
type Policy struct {
	BackoffMax     time.Duration // the longest wait that the back-off alone asks for
	RetryAfterMax  time.Duration // the longest wait that a target may ask for
	CompletedTTL   time.Duration // how long a completed job is kept
	FailedTTL      time.Duration // how long a failed job is kept
	ResultMaxBytes int           // how much of an answer's body is kept
}

// decision is what an attempt means for its job: its end, or a retry at a time.
type decision struct {
	attempt job.Attempt
	end     *job.End  // nil: retry
	payload []byte    // the whole body, if the result in end has it cut
	retryAt time.Time // when to retry
	reason  string    // why the attempt failed; empty if it did not

	now   time.Time // when the attempt ended
	asked bool      // the target has said when to come back
}

// decide judges an attempt that has ended. hint is what the target said about coming back; jitter is
// uniform in [0,1).
//
// An attempt that the node itself cut, because it stops, counts, but it says nothing about the target:
// the next one is due at once.
func (p Policy) decide(s job.Snapshot, out dispatch.Outcome, hint pace.RetryAfter, jitter float64) decision {
	d := decided(s, out, hint)
	switch {
	case out.Class == "" && !out.NoRetry && !out.Retryable():
		return p.completed(d, out)
	case !out.Retryable() || s.State.Tried >= s.Job.AttemptsAllowed(s.State):
		return p.failed(d.because(out), out)
	default:
		return p.again(d.because(out), s, out, hint.Or(pace.Backoff(s.State.Retries(), p.BackoffMax, jitter), p.RetryAfterMax))
	}
}

// decided is what all decisions about an attempt have in common.
func decided(s job.Snapshot, out dispatch.Outcome, hint pace.RetryAfter) decision {
	return decision{
		now: out.StartedAt.Add(out.Took),
		attempt: job.Attempt{
			Number: s.State.Tried, StartedAt: out.StartedAt.UnixMilli(), DurationMS: out.Took.Milliseconds(),
			Status: out.Status, Error: out.Class, MaybeExecuted: out.MaybeExecuted, RetryAfter: strings.Clone(hint.Raw),
		},
		asked: hint.OK,
	}
}

// because notes why the attempt failed.
func (d decision) because(out dispatch.Outcome) decision {
	if d.reason = shortened(out.Reason()); out.Canceled() {
		d.attempt.Error, d.reason = job.CrashedWorker, string(job.CrashedWorker)
	}
	return d
}

// again has the job tried again after a while.
func (p Policy) again(d decision, s job.Snapshot, out dispatch.Outcome, wait time.Duration) decision {
	if out.Canceled() {
		wait = 0
	}
	if d.retryAt = d.now.Add(wait); s.Job.Expired(d.retryAt) {
		d.reason = "retry_window_exhausted: " + d.reason
		return p.failed(d, out)
	}
	d.attempt.RetryWaitMS, d.attempt.Asked = wait.Milliseconds(), d.asked
	return d
}

// completed ends the job with the answer.
func (p Policy) completed(d decision, out dispatch.Outcome) decision {
	d = p.ended(d, out)
	d.end.Status, d.end.Keep = job.Completed, p.CompletedTTL.Milliseconds()
	d.end.Result.ContentType = strings.Clone(out.Header.Get("Content-Type")) // which is part of the whole header
	return d
}

// failed ends the job, with the answer if there was one; its content type is kept of completed jobs
// only.
func (p Policy) failed(d decision, out dispatch.Outcome) decision {
	d = p.ended(d, out)
	d.end.Status, d.end.Keep, d.end.Reason = job.Failed, p.FailedTTL.Milliseconds(), d.reason
	return d
}

func (p Policy) ended(d decision, out dispatch.Outcome) decision {
	last := d.attempt // a pointer into d would have all of d stay
	d.end = &job.End{At: d.now.UnixMilli(), Last: &last}
	if out.Class != "" {
		return d
	}
	kept, cut := job.Cut(out.Body, p.ResultMaxBytes)
	if cut {
		d.payload, kept = out.Body, bytes.Clone(kept) // so that what is kept does not keep the rest in memory
	}
	d.end.Result = &job.Result{Status: out.Status, Body: kept, Truncated: cut, Partial: out.Truncated}
	return d
}

// maxReason is how many bytes of an error's text are kept: a target has a say in it, and it stands
// wherever the job is shown.
const maxReason = 500

func shortened(reason string) string {
	kept, _ := job.Cut([]byte(reason), maxReason)
	return string(kept)
}
