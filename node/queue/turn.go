package queue

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Runner does the work of a turn.
type Runner interface {
	// Run is called in a goroutine of its own. It calls Release as soon as the target is done, and
	// returns when it is known where the job stands. ctx has the values of the one given to
	// Queue.Run but does not end: a turn that is open is finished.
	//
	// A Runner must not panic. If it does, its slot is freed and the job is no longer counted; where
	// it stands is for the next process to find out.
	Run(ctx context.Context, t *Turn) Verdict
}

// Verdict is where a job stands after its turn.
type Verdict uint8

const (
	// Ended: the job has left the line, and is not counted any more.
	Ended Verdict = iota
	// Waits: the job stands among what is due. It still counts as backlog, and Resume brings it back.
	Waits
)

// Turn is one job that may be sent now, and the slot for it.
type Turn struct {
	Entry job.Entry
	// Held is the job as it was pushed; nil if it has to be read from the store.
	Held *job.Snapshot

	place    *Place
	slot     pace.Slot[*lane]
	load     Load
	runner   Runner // of a turn past the queue; nil: the queue's
	released bool   // guarded by the target's lock
}

// Load is the load at the moment when the turn began, the job itself included.
func (t *Turn) Load() Load { return t.load }

// Release frees the slot, with what the target said about its pace. Calls after the first do
// nothing.
func (t *Turn) Release(s pace.Signal) {
	target := t.place.lane.target
	target.mu.Lock()
	defer target.mu.Unlock()
	target.release(t, s)
}

func (t *target) release(turn *Turn, s pace.Signal) {
	if turn.released {
		return
	}
	turn.released = true
	now := time.Now()
	t.q.counts.metrics.heard(&s)
	if turn.place.lane.shared() { // what one of its tenants was told is nothing to the others
		s.RetryAfter = pace.RetryAfter{}
	}
	if opened := t.done(turn, s, now); opened != pace.BreakerClosed {
		t.q.counts.metrics.trips.WithLabelValues(opened.String()).Inc()
	}
	t.q.counts.inFlight.Add(-1)
	t.pump(now)
}

// done gives the slot of a turn back.
func (t *target) done(turn *Turn, s pace.Signal, now time.Time) (opened pace.BreakerKind) {
	if turn.place.direct {
		return t.pace.Budget().Done(s, now)
	}
	return t.pace.Done(turn.slot, s, now)
}

// take runs a turn. Whatever the Runner does, the turn ends.
func (t *target) take(r *run, turn *Turn) {
	verdict := Ended
	defer t.q.working.Done()
	defer func() {
		if reason := recover(); reason != nil {
			t.q.counts.metrics.failedRunner.Inc()
			t.q.cfg.Logger.Error("turn panicked", "line", t.q.cfg.Line.String(), "target", t.name,
				"job", turn.Entry.ID.String(), "panic", reason, "stack", string(debug.Stack()))
		}
		t.end(turn, verdict)
	}()
	runner := t.q.cfg.Runner
	if turn.runner != nil {
		runner = turn.runner
	}
	verdict = runner.Run(r.turns, turn)
}

// end takes note of how a turn ended. If its job has come back meanwhile, it goes on waiting now.
func (t *target) end(turn *Turn, v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := turn.place
	next := p.sibling
	p.sibling = nil
	t.leave(p)
	if p.direct { // its entry may be behind what has been read of the lane
		t.direct--
		p.lane.gone(p.id)
	}
	if v == Ended {
		t.count(p.lane, -1)
	}
	if next != nil {
		next.sibling = nil
	}
	if next != nil && next.state == parked {
		t.enter(next)
		t.pump(time.Now())
	}
	t.release(turn, pace.Signal{})
	t.q.counts.done()
	t.tidy(p.lane)
}
