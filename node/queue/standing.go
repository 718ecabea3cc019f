package queue

import (
	"context"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Standing is where a job waits, and what for.
type Standing struct {
	// Position is the job's place in its lane: 1 is the next of the lane, MaxPosition that one or any behind it.
	Position int
	// ETA estimates how long until its turn, from the present rate and the fair order.
	ETA time.Duration
	// For is what it waits for.
	For pace.Reason
	// Since is when it came to wait; zero if that is not known.
	Since time.Time
}

// MaxPosition is the last position that is told apart from those behind it. Who waits there is told so
// again and again, and each time what is ahead on disk has to be counted.
const MaxPosition = 1000

// Standing returns where a job waits in its lane; false if it does not.
func (q *Queue) Standing(ctx context.Context, e job.Entry) (Standing, bool, error) {
	n, after, ok := q.ahead(e)
	if !ok {
		return Standing{}, false, nil
	}
	if room := MaxPosition - 1 - n; after != 0 && room > 0 {
		more, err := q.cfg.Backlog.Ahead(ctx, q.cfg.Line, e.Lane, after, e.Order, room)
		if err != nil {
			return Standing{}, false, err
		}
		n += more
	}
	s, ok := q.explain(e, min(n, MaxPosition-1))
	return s, ok, nil
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

// explain says what a job that has n before it in its lane waits for, and for how long; false if the lane is
// gone meanwhile.
func (q *Queue) explain(e job.Entry, n int) (Standing, bool) {
	t := q.find(e.Lane.Target)
	if t == nil {
		return Standing{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lanes[e.Lane.Tenant]
	if l == nil {
		return Standing{}, false
	}
	others := t.backlog - int(l.backlog) - t.pace.Budget().InFlight()
	w := t.pace.ETA(&l.flow, n, others, time.Now())
	s := Standing{Position: n + 1, ETA: w.For, For: w.Reason}
	if t.paused || q.run.Load() == nil {
		s.For = pace.WaitNotReady
	}
	if p := t.present[e.ID]; p != nil && p.since != 0 {
		s.Since = q.epoch.Add(p.since)
	}
	return s, true
}
