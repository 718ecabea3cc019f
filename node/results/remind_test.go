package results_test

import (
	"errors"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

// What the last process may not have been heard with is told again, and what stands there of others stays.
func TestRemind(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	done, queued, rerun := a.job("u", "done"), a.job("u", "queued"), a.job("u", "rerun")
	rerun.RedriveOf = done.ID
	if err := a.Remind(t.Context(), each(nil, ended(done, "text"), job.Snapshot{Job: queued}, ended(rerun, "text"))); err != nil {
		t.Fatal(err)
	}
	b.meets(b.job("u", "done"), done, job.Completed)
	b.meets(b.job("u", "queued"), queued, job.Queued)
	b.claims(b.job("u", "rerun"))
	stands(t, s, resultKey(done), map[string]any{"body": "text"})

	a.Ended(ended(done, "te"), []byte("text")) // of which the node keeps only the beginning
	stands(t, s, resultKey(done), map[string]any{"body": "text"})
	if err := a.Remind(t.Context(), each(nil, ended(done, "te"))); err != nil {
		t.Fatal(err)
	}
	stands(t, s, resultKey(done), map[string]any{"body": "text"})

	theirs := b.job("u", "theirs")
	b.claims(theirs)
	b.Stored(theirs)
	stands(t, s, entryKey(theirs), map[string]any{"job_id": theirs.ID.String()})
	if err := a.Remind(t.Context(), each(nil, job.Snapshot{Job: a.job("u", "theirs")})); err != nil {
		t.Fatal(err)
	}
	stands(t, s, entryKey(theirs), map[string]any{"job_id": theirs.ID.String()})

	errDisk := errors.New("the disk is on fire")
	if err := a.Remind(t.Context(), each(errDisk, job.Snapshot{Job: queued})); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	s.Kill()
	if err := a.Remind(t.Context(), each(nil, job.Snapshot{Job: queued})); err == nil {
		t.Error("it was told nobody")
	}
}

// Of a job that may leave no trace nobody is told, and of one that has left none Valkey is told just that.
func TestRemindOfWhatLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	open, void, done := a.job("u", "open"), a.job("u", "void"), a.job("u", "done")
	a.Stored(void)
	stands(t, s, entryKey(void), map[string]any{"job_id": void.ID.String()})
	for _, j := range []*job.Job{open, void, done} {
		j.DirectOnly = true
	}
	failed := job.Snapshot{Job: void, State: job.State{Status: job.Failed, Reason: "upstream_overloaded"}}
	if err := a.Remind(t.Context(), each(nil, job.Snapshot{Job: open}, failed, ended(done, "text"))); err != nil {
		t.Fatal(err)
	}
	b.claims(b.job("u", "open"))
	b.claims(b.job("u", "void"))
	if got := s.Get(resultKey(void)); got != "" {
		t.Errorf("it has left %s", got)
	}
	b.meets(b.job("u", "done"), done, job.Completed)
}

// A region of one that keeps only results has nothing to tell of a job that has not ended.
func TestRemindOfNothing(t *testing.T) {
	c := config("valkey://127.0.0.1:1", "a")
	c.Claims = false
	n := start(t, c)
	if err := n.Remind(t.Context(), each(nil, job.Snapshot{Job: n.job("u", "k")})); err != nil {
		t.Error(err)
	}
	var none *results.Region
	if err := none.Remind(t.Context(), each(nil, ended(n.job("u", "k"), "text"))); err != nil {
		t.Error(err)
	}
}
