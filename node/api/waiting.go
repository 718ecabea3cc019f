package api

import (
	"context"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Standing is where a job waits in its queue, and what for.
type Standing struct {
	Position int           // 1 is the next of its queue
	ETA      time.Duration // estimated, until its turn
	For      string        // one of the reasons of the reference
	Since    time.Time     // zero if not known
}

// etaMS is the estimated time until its turn in milliseconds; nil if nobody can tell.
func (s Standing) etaMS() *int64 {
	if s.For == forNotReady {
		return nil
	}
	return new(s.ETA.Milliseconds())
}

// waiting is why a job does not run, and when it may.
type waiting struct {
	For      string `json:"for"`
	Position int    `json:"position,omitempty"` // absent while it is not in its queue
	ETAMS    *int64 `json:"eta_ms,omitempty"`   // absent while nobody can tell
	Since    int64  `json:"since"`
}

// The reasons of a job that waits for a retry, and of one whose turn nobody can tell.
const (
	forBackoff    = "backoff"     // the node's own choice
	forRetryAfter = "retry_after" // the target's
	forNotReady   = "not_ready"   // an operator's, or the node's own state
)

// waitingOf says why a job does not run; nil if it does, or has ended. What cannot be found out now is left out.
func (f *face) waitingOf(ctx context.Context, s job.Snapshot) *waiting {
	st := s.State
	switch {
	case st.Phase().Ended():
		return nil
	case st.DueAt != 0:
		return retryOf(st)
	case st.Open():
		return nil
	}
	at, ok, err := f.Standing(ctx, job.Entry{Lane: s.Job.Lane(), Order: st.Order, ID: s.Job.ID})
	if err != nil || !ok {
		return nil
	}
	w := &waiting{For: at.For, Position: at.Position, ETAMS: at.etaMS(), Since: at.Since.UnixMilli()}
	if at.Since.IsZero() {
		w.Since = s.Job.CreatedAt
	}
	return w
}

// retryOf says how long a retry has to wait.
func retryOf(st job.State) *waiting {
	w := &waiting{For: forBackoff, ETAMS: new(max(st.DueAt-time.Now().UnixMilli(), 0))}
	if n := len(st.Attempts); n > 0 {
		last := st.Attempts[n-1]
		w.Since = last.StartedAt + last.DurationMS
		if last.Asked {
			w.For = forRetryAfter
		}
	}
	return w
}
