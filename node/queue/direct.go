package queue

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Direct reserves a turn past the queue for work that is about to be stored, and returns it with the load, or nil if its
// target is to get none now: something waits for it, its breaker is open, it is paused, or a limit that it has asked for
// is reached. What is configured holds back no such turn, but counts it: those in the queue have to wait for it.
//
// The holder of the place ends the reservation with Start or Cancel.
func (q *Queue) Direct(l job.Lane, id job.ID) (*Place, Load) {
	t := q.lock(l.Target)
	defer t.mu.Unlock()
	now := time.Now()
	if !t.passes(now) {
		return nil, Load{}
	}
	t.pace.Budget().Take(now)
	ln := t.lane(l.Tenant)
	t.count(ln, +1)
	p := t.reserve(ln, id)
	p.direct = true
	t.direct++
	q.counts.open()
	return p, t.load(ln)
}

// passes reports whether work may go past the queue now. Other work that does so is no reason against it.
func (t *target) passes(now time.Time) bool {
	b := t.pace.Budget()
	if kind, _ := b.Breaker().Open(now); kind != pace.BreakerClosed {
		return false
	}
	wait, ok := b.DirectWait(now)
	return ok && wait == 0 && t.q.run.Load() != nil && !t.paused && t.backlog == t.direct
}

// Start gives the job of a place that Direct has returned, which is in the store now at e, its turn, with a Runner of its own. It
// returns false if turns start no longer: then the job waits as if it had been pushed.
func (p *Place) Start(e job.Entry, held *job.Snapshot, r Runner) bool {
	t := p.lane.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state != reserved || !p.direct {
		return false
	}
	p.order = e.Order
	t.q.tenants.note(p.lane.tenant, p.id, held)
	turns := t.q.run.Load()
	if turns == nil {
		t.forgo(p)
		t.q.counts.waiting.Add(1)
		t.enter(p)
		return false
	}
	p.state = open
	turn := &Turn{Entry: e, Held: held, place: p, load: t.load(p.lane), runner: r}
	turn.load.Rate = 0 // it is none of those that the target gets so many of a second
	t.q.working.Add(1)
	t.q.workers.start(task{t, turns, turn})
	return true
}

// forgo gives back the slot of a turn past the queue that does not start.
func (t *target) forgo(p *Place) {
	p.direct = false
	t.direct--
	t.q.counts.inFlight.Add(-1)
	t.pace.Budget().Done(pace.Signal{}, time.Now())
}
