package queue

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Place is a job's place in the queue while it is present. Its holder ends the reservation with
// Push or Cancel; the second call does nothing. All its fields are guarded by the target's lock.
type Place struct {
	lane  *lane
	id    job.ID
	order job.Order     // 0 while it is not known
	held  *job.Snapshot // nil: to be read from the store
	since time.Duration // when it came to wait, from the queue's epoch on; 0 if not known
	// sibling is another place of the same job; nil if there is none. While a turn is open it is the
	// place that the job takes next, and to that one it is the turn.
	sibling *Place
	state   placeState
	// resumed work was counted before.
	resumed bool
	// direct work has a slot and never waits.
	direct bool
}

type placeState uint8

const (
	reserved  placeState = iota // about to be stored, or to come back
	parked                      // pushed, but the turn before has not returned
	waiting                     // in the lane's window
	open                        // its turn is running
	withdrawn                   // waited, and will be ended by whoever withdrew it
	left                        // not present any more
)

// Reserve counts work that is about to be stored, so that its lane and its target show it at once. No
// other work of the same id may be present, except a turn that is about to return.
func (q *Queue) Reserve(l job.Lane, id job.ID) *Place {
	t := q.lock(l.Target)
	defer t.mu.Unlock()
	ln := t.lane(l.Tenant)
	t.count(ln, +1)
	return t.reserve(ln, id)
}

// Join is Reserve, and the load as the lane sees it with the work that joins. Both happen in one step, so
// that of those who join at once each one sees the ones before it.
func (q *Queue) Join(l job.Lane, id job.ID) (*Place, Load) {
	t := q.lock(l.Target)
	defer t.mu.Unlock()
	ln := t.lane(l.Tenant)
	t.count(ln, +1)
	return t.reserve(ln, id), t.load(ln)
}

// Resume marks due work that is about to come back to its lane. It is counted already.
func (q *Queue) Resume(l job.Lane, id job.ID) *Place {
	t := q.lock(l.Target)
	defer t.mu.Unlock()
	p := t.reserve(t.lane(l.Tenant), id)
	p.resumed = true
	return p
}

func (t *target) reserve(ln *lane, id job.ID) *Place {
	p := &Place{lane: ln, id: id}
	if old := t.present[id]; old != nil && old.state == open {
		p.sibling, old.sibling = old, p
	}
	t.occupy(p)
	t.q.counts.come()
	return p
}

// Push queues the job, which is in the store now, at e. held is its snapshot if it is at hand; the
// queue keeps it for the turn if there is room.
func (p *Place) Push(e job.Entry, held *job.Snapshot) {
	t := p.lane.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state != reserved {
		return
	}
	now := time.Now()
	p.order, p.since = e.Order, now.Sub(t.q.epoch)
	t.q.tenants.note(p.lane.tenant, p.id, held)
	p.hold(held)
	if p.sibling != nil {
		p.state = parked
		return
	}
	t.enter(p)
	t.pump(now)
}

// Cancel takes the reservation back: the work was not stored, or needs no turn.
func (p *Place) Cancel() {
	ln, t := p.lane, p.lane.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state != reserved {
		return
	}
	t.leave(p)
	ln.gone(p.id)
	if p.direct {
		t.forgo(p)
		t.q.counts.done()
		t.pump(time.Now())
	} else {
		t.q.counts.leave()
	}
	if !p.resumed {
		t.count(ln, -1)
	}
	t.tidy(ln)
}

// Restore takes up an entry that the last process left in its lane. It is for before Run, once for
// each entry, those of a lane in order.
func (q *Queue) Restore(e job.Entry) {
	t := q.lock(e.Lane.Target)
	defer t.mu.Unlock()
	ln := t.lane(e.Lane.Tenant)
	t.count(ln, +1)
	q.counts.come()
	if ln.more || len(ln.window) >= q.cfg.Window {
		ln.more = true
		return
	}
	t.admit(ln, e)
}

// RestoreWaiting counts a job of a lane that the last process left among what is due.
func (q *Queue) RestoreWaiting(l job.Lane, id job.ID) {
	t := q.lock(l.Target)
	defer t.mu.Unlock()
	t.count(t.lane(l.Tenant), +1)
	q.tenants.note(l.Tenant, id, nil)
}

// enter puts a pushed place where it belongs: into the window, or back to where there is only the
// disk.
func (t *target) enter(p *Place) {
	ln := p.lane
	if p.order > ln.high {
		if ln.more || len(ln.window) >= t.q.cfg.Window {
			ln.more, ln.dirty = true, true
			ln.back(p.id, p.order)
			t.leave(p)
			return
		}
		ln.high = p.order
	}
	ln.insert(p)
	t.ready(ln)
}

// admit takes an entry that was only on disk into the window.
func (t *target) admit(ln *lane, e job.Entry) {
	p := &Place{lane: ln, id: e.ID, order: e.Order}
	t.q.tenants.note(ln.tenant, e.ID, nil)
	t.occupy(p)
	ln.high = e.Order
	ln.insert(p)
	t.ready(ln)
}

// leave ends the presence of a place. A turn of the same job that has not returned is present again.
func (t *target) leave(p *Place) {
	p.state = left
	p.release()
	p.lane.places--
	if t.present[p.id] != p {
		return
	}
	delete(t.present, p.id)
	if p.sibling != nil {
		t.present[p.id], p.sibling.sibling = p.sibling, nil
	}
}

// hold keeps the snapshot of the job if there is room for it.
func (p *Place) hold(s *job.Snapshot) {
	if s == nil {
		return
	}
	q, n := p.lane.target.q, size(s)
	if q.held.Add(n) > q.cfg.HeldBytes {
		q.held.Add(-n)
		return
	}
	p.held = s
}

// release returns the snapshot that was kept, which is kept no more.
func (p *Place) release() *job.Snapshot {
	s := p.held
	if s != nil {
		p.lane.target.q.held.Add(-size(s))
		p.held = nil
	}
	return s
}

// size is about how many bytes a snapshot takes.
func size(s *job.Snapshot) int64 {
	const fixed = 512 // the structs and the short strings
	r := &s.Job.Request
	n := fixed + len(r.URL) + len(r.Body) + len(r.WebhookURL)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	if s.State.Result != nil {
		n += len(s.State.Result.Body)
	}
	return int64(n)
}
