package worker

import (
	"context"
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// Answer is how the attempt of a turn past the queue went.
type Answer struct {
	dispatch.Outcome
	// Tried: there was an attempt. Without one the Outcome is zero.
	Tried bool
	// Recorded: what the outcome means for the job is. Else the node stops, and the next process knows only of the attempt.
	Recorded bool
	// Completed: the job is recorded as completed with this outcome. Else it waits in the queue, or has failed.
	Completed bool
}

// Direct takes a turn past the queue. It returns when the outcome is recorded, as Run does. The attempt takes no longer
// than Config.DirectTimeout. An answer completes the job, whatever its status, unless it tells of overload; that a 2xx
// does is no reason to call again. With overload, or without an answer, the job joins the queue: at once, or when the
// target wants to be asked again.
func (w *Worker) Direct(ctx context.Context, t *queue.Turn) (a Answer, v queue.Verdict) {
	v = w.run(ctx, t, &a)
	return a, v
}

// tell writes down how the attempt went, if somebody wants to know.
func (a *Answer) tell(out dispatch.Outcome, recorded, completed bool) {
	if a != nil {
		*a = Answer{Outcome: out, Tried: true, Recorded: recorded, Completed: recorded && completed}
	}
}

// decideDirect judges an attempt that went past the queue.
func (p Policy) decideDirect(s job.Snapshot, out dispatch.Outcome, sig pace.Signal) decision {
	d := decided(s, out, sig.RetryAfter)
	answered := out.Class == ""
	overloaded := sig.Overload.Kind != pace.BreakerClosed && sig.Overload.Reason == pace.Overloaded && out.Status/100 != http.StatusOK/100
	switch {
	case answered && !overloaded:
		return p.completed(d, out)
	case s.Job.DirectOnly, answered && out.NoRetry, !answered && !out.Retryable():
		return p.failed(d.because(out), out)
	default:
		return p.again(d.because(out), s, out, sig.RetryAfter.Or(0, p.RetryAfterMax))
	}
}
