package worker

import (
	"context"
	"log/slog"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// The lines of level Debug tell a job's life, one for each step. Why an attempt failed is told by its
// class: the text of an error may have in it what the target said. Each line is made only if somebody
// reads it, since writing down what it tells takes memory.

func (w *Worker) logBegun(ctx context.Context, s job.Snapshot) {
	if w.Logger.Enabled(ctx, slog.LevelDebug) {
		w.Logger.LogAttrs(ctx, slog.LevelDebug, "attempt begun", append(about(s.Job), slog.Int("attempt", s.State.Tried))...)
	}
}

func (w *Worker) logEnded(ctx context.Context, j *job.Job, a *job.Attempt) {
	if w.Logger.Enabled(ctx, slog.LevelDebug) {
		w.Logger.LogAttrs(ctx, slog.LevelDebug, "attempt ended", append(about(j), slog.Int("attempt", a.Number),
			slog.Int("status", a.Status), slog.String("reason", string(a.Error)), slog.Int64("duration_ms", a.DurationMS))...)
	}
}

func (w *Worker) logRetry(ctx context.Context, j *job.Job, a *job.Attempt) {
	if w.Logger.Enabled(ctx, slog.LevelDebug) {
		w.Logger.LogAttrs(ctx, slog.LevelDebug, "retry scheduled", append(about(j), slog.Int("attempt", a.Number+1),
			slog.Int64("retry_wait_ms", a.RetryWaitMS))...)
	}
}

func (e *Ending) logEnded(ctx context.Context, f Final, next job.State) {
	if !e.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	reason := f.End.Reason // in words of ours, if no attempt decided
	if f.End.Last != nil {
		reason = string(f.End.Last.Error)
	}
	e.Logger.LogAttrs(ctx, slog.LevelDebug, "job ended", append(about(f.Job), slog.String("outcome", string(next.Phase())),
		slog.Int("attempt", next.Tried), slog.Int("status", next.ResponseStatus()), slog.String("reason", reason))...)
}

// about says which job a line tells of.
func about(j *job.Job) []slog.Attr {
	return []slog.Attr{slog.String("job_id", j.ID.String()), slog.String("target", j.Lane().Host())}
}
