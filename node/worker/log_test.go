package worker

import (
	"log/slog"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Lines that nobody reads cost the hot path nothing.
func TestSilentLinesTakeNoMemory(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	e := NewEnding(EndingConfig{Logger: logger})
	w := New(Config{Logger: logger, Ending: e})
	s := job.Snapshot{Job: &job.Job{Request: job.Request{URL: "http://target.test/"}}, State: job.State{Tried: 1}}
	a := job.Attempt{Number: 1, Status: 503}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		w.logBegun(ctx, s)
		w.logEnded(ctx, s.Job, &a)
		w.logRetry(ctx, s.Job, &a)
		e.logEnded(ctx, Final{Job: s.Job, End: job.End{Last: &a}}, s.State)
	}); n != 0 {
		t.Errorf("they take %v allocations", n)
	}
}
