package queue

import (
	"context"
	"slices"

	"github.com/aquifer-fleet/aquifer/node/job"
)

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

// maxAhead bounds how many entries on disk a position counts.
const maxAhead = 10_000

// Position returns a job's place in its lane: 1 is the next of the lane. ok is false if it does not
// wait there. A position far behind is counted up to some 10,000.
func (q *Queue) Position(ctx context.Context, e job.Entry) (n int, ok bool, err error) {
	n, after, ok := q.ahead(e)
	if !ok {
		return 0, false, nil
	}
	if after == 0 {
		return n + 1, true, nil
	}
	more, err := q.cfg.Backlog.Ahead(ctx, q.cfg.Line, e.Lane, after, e.Order, maxAhead)
	if err != nil {
		return 0, false, err
	}
	return n + more + 1, true, nil
}

// ahead returns how many jobs are before a waiting one in its lane's window. For one that is only on
// disk, after is the order from which on there are more before it.
func (q *Queue) ahead(e job.Entry) (n int, after job.Order, ok bool) {
	t := q.find(e.Lane.Target)
	if t == nil {
		return 0, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l, p := t.lanes[e.Lane.Tenant], t.present[e.ID]
	switch {
	case l == nil:
		return 0, 0, false
	case p != nil && p.order != e.Order:
		return 0, 0, false
	case p != nil:
		n = slices.Index(l.window, p)
		return max(n, 0), 0, n >= 0
	default:
		return len(l.window), l.high, l.more && e.Order > l.high
	}
}
