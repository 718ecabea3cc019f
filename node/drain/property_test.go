package drain_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/drain"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// bubbled keeps rapid from asking for the test's deadline, which a bubble does not allow.
type bubbled struct{ testing.TB }

// Whatever the sink, the disk and the process do: a job is gone only after the sink has taken it, everything else
// stays, a batch that is told again is the same, and in the end the sink has all that ended.
func TestWhatWasFlushedIsClearedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			p := &chaos{stage: newStage(t, every(20*time.Second, rapid.IntRange(1, 4).Draw(rt, "most"))),
				taken: map[string]bool{}, batches: map[string][]ledgerRecord{}}
			p.run()
			p.takes(p.answer("takes"))
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				p.step(rt)
				p.check(rt)
			}
			p.finishAll(rt)
			p.stop()
		})
	})
}

// chaos is a stage and what must be true on it.
type chaos struct {
	*stage
	waiting, owed, over []*job.Job
	// Guarded by the stage's mutex: what the sink has taken, by job id, and what batches it was told.
	taken   map[string]bool
	batches map[string][]ledgerRecord
}

func (p *chaos) step(rt *rapid.T) {
	switch rapid.SampledFrom([]string{"accept", "end", "end", "settle", "time", "time", "sink", "disk", "crash"}).Draw(rt, "step") {
	case "accept":
		p.waiting = append(p.waiting, p.accept())
	case "end":
		if len(p.waiting) > 0 {
			p.disk.SetFault(nil)
			p.finish(p.waiting[0])
			p.owed, p.waiting = append(p.owed, p.waiting[0]), p.waiting[1:]
		}
	case "settle":
		for _, j := range p.owed {
			p.settle(j)
		}
		p.over, p.owed = append(p.over, p.owed...), nil
	case "time":
		time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(rt, "for"))
	case "sink":
		p.takes(p.answer(rapid.SampledFrom([]string{"takes", "takes", "refuses", "hangs", "takes, without an answer"}).Draw(rt, "answer")))
	case "disk":
		method := rapid.SampledFrom([]string{"LedgerBatch", "LedgerFlushed", "ClearFlushed"}).Draw(rt, "method")
		p.disk.SetFault(storetest.Failing(method, rapid.IntRange(0, 3).Draw(rt, "times"), rapid.Bool().Draw(rt, "lands")))
	case "crash":
		p.stop()
		p.run()
	}
	// The node knows of its deliveries, but not always of what has just been accepted.
	p.unfinished.Store(int64(len(p.owed)))
	synctest.Wait()
}

// answer returns a sink that keeps account of what it has taken.
func (p *chaos) answer(how string) func(context.Context, message) (int, error) {
	return func(ctx context.Context, m message) (int, error) {
		if how == "hangs" {
			return hang(ctx, m)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if before := p.batches[m.BatchID]; before != nil && !reflect.DeepEqual(before, m.Ledger) {
			p.Errorf("batch %s was %+v and is %+v", m.BatchID, before, m.Ledger)
		}
		p.batches[m.BatchID] = m.Ledger
		if how == "refuses" {
			return 500, nil
		}
		for _, e := range m.Ledger {
			p.taken[e.JobID] = true
		}
		if how != "takes" {
			return 0, errors.New("connection lost")
		}
		return 200, nil
	}
}

// check fails unless everything is there that the sink has not taken, or that is not over.
func (p *chaos) check(rt *rapid.T) {
	p.has(true, p.waiting...)
	p.has(true, p.owed...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.over {
		if _, err := p.store.Get(p.Context(), j.ID); errors.Is(err, store.ErrNotFound) && !p.taken[j.ID.String()] {
			rt.Fatalf("job %s is gone, and the sink does not have it", j.ID)
		}
	}
}

// finishAll lets everything go well.
func (p *chaos) finishAll(rt *rapid.T) {
	p.disk.SetFault(nil)
	p.takes(p.answer("takes"))
	for _, j := range p.owed {
		p.settle(j)
	}
	p.unfinished.Store(0)
	time.Sleep(5 * time.Minute)
	p.is(drain.Unassigned)
	ended := slices.Concat(p.over, p.owed)
	p.has(false, ended...)
	p.has(true, p.waiting...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range ended {
		if !p.taken[j.ID.String()] {
			rt.Fatalf("the sink was not told of %s", j.ID)
		}
	}
	if len(p.taken) != len(ended) {
		rt.Fatalf("the sink was told of %d jobs, %d have ended", len(p.taken), len(ended))
	}
}
