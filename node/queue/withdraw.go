package queue

import "github.com/aquifer-fleet/aquifer/node/job"

// Withdraw takes a job that waits at e out of its lane, so that it gets no turn, and reports whether it
// did or had done so before. It is false for a job that is reserved or being sent, or does not wait
// there any more. Of a job that is only on disk the queue takes it from the caller that it has not
// ended. Whoever withdraws a job ends it, and then calls Gone.
func (q *Queue) Withdraw(e job.Entry) bool {
	t := q.find(e.Lane.Target)
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[e.Lane.Tenant]
	if l == nil {
		return false
	}
	p := t.present[e.ID]
	switch {
	case p == nil && l.more && e.Order > l.high: // only on disk
		t.occupy(&Place{lane: l, id: e.ID, order: e.Order, state: withdrawn})
		return true
	case p == nil || p.order != e.Order:
		return false
	case p.state == waiting:
		l.remove(p)
		p.release()
		p.state = withdrawn
		t.feed(l)
		return true
	default:
		return p.state == withdrawn
	}
}

// Gone tells that a job has ended which was withdrawn, or stood among what is due.
func (q *Queue) Gone(lane job.Lane, id job.ID) {
	t := q.find(lane.Target)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[lane.Tenant]
	if l == nil || l.backlog == 0 {
		return
	}
	if p := t.present[id]; p != nil && p.state == withdrawn {
		t.leave(p)
		l.gone(id)
		q.counts.leave()
	}
	t.count(l, -1)
	t.tidy(l)
}
