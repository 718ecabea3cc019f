package worker

import (
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

// MaxCrashes is how many attempts that its process does not survive a job may make.
const MaxCrashes = 3

// decision is what an attempt means for its job: its end, or a retry at a time.
type decision struct {
	attempt job.Attempt
	end     *job.End  // nil: retry
	payload []byte    // the whole body, if the result in end has it cut
	retryAt time.Time // when to retry
	reason  string    // why the attempt failed
}

// decide judges an attempt that has ended. jitter is uniform in [0,1).
func (p Policy) decide(s job.Snapshot, out dispatch.Outcome, sig pace.Signal, jitter float64) decision {
	now := out.StartedAt.Add(out.Took)
	d := decision{
		attempt: job.Attempt{
			Number:        s.State.Tried,
			StartedAt:     out.StartedAt.UnixMilli(),
			DurationMS:    out.Took.Milliseconds(),
			Status:        out.Status,
			Error:         out.Class,
			MaybeExecuted: out.MaybeExecuted,
			RetryAfter:    sig.RetryAfter.Raw,
		},
	}
	if out.Class == "" && !out.Retryable() && !sig.NoRetry {
		return p.completed(d, out, now)
	}
	d.reason = out.Reason()
	if !out.Retryable() || sig.NoRetry || s.State.Tried >= s.Job.AttemptsAllowed() {
		return p.failed(d, out, now)
	}
	wait := p.wait(s.State.Tried-1, sig, jitter)
	d.retryAt = now.Add(wait)
	if s.Job.Expired(d.retryAt) {
		d.reason = "retry_window_exhausted: " + d.reason
		return p.failed(d, out, now)
	}
	d.attempt.RetryWaitMS = wait.Milliseconds()
	return d
}

// wait is how long to wait after a failure that had so many before it: what the target says, else
// the back-off.
func (p Policy) wait(before int, sig pace.Signal, jitter float64) time.Duration {
	if sig.RetryAfter.OK {
		return min(max(sig.RetryAfter.Wait, pace.MinBackoff), p.RetryAfterMax)
	}
	return pace.Backoff(before, p.BackoffMax, jitter)
}

func (p Policy) completed(d decision, out dispatch.Outcome, now time.Time) decision {
	d.end = &job.End{Status: job.Completed, Keep: p.CompletedTTL.Milliseconds()}
	return p.ended(d, out, now)
}

func (p Policy) failed(d decision, out dispatch.Outcome, now time.Time) decision {
	d.end = &job.End{Status: job.Failed, Keep: p.FailedTTL.Milliseconds(), Reason: d.reason}
	return p.ended(d, out, now)
}

func (p Policy) ended(d decision, out dispatch.Outcome, now time.Time) decision {
	d.end.At = now.UnixMilli()
	d.end.Last = &d.attempt
	if out.Class != "" {
		return d
	}
	kept, cut := job.Cut(out.Body, p.ResultMaxBytes)
	if cut {
		d.payload = out.Body
	}
	d.end.Result = &job.Result{
		Status: out.Status, ContentType: out.Header.Get("Content-Type"), Body: kept, Truncated: cut, Partial: out.Truncated,
	}
	return d
}
