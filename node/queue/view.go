package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// View is a target as it stands, for a person to read.
type View struct {
	Target   string // scheme://host[:port]
	Paused   bool
	Limits   pace.Limits
	Breaker  pace.Breaker
	Backlog  int // unfinished work, wherever it is
	InFlight int // slots that are taken
	Lanes    int // with unfinished work
}

// LaneView is a lane as it stands.
type LaneView struct {
	Tenant  job.Tenant
	Backlog int // unfinished work
	// OwnRate is the rate to which the tenant's own failures have slowed it down; 0: they have not.
	OwnRate float64
	// CoolsUntil is when the target wants to be called for the tenant again; zero: at any time.
	CoolsUntil time.Time
}

// Views returns the targets that are known, by name. Those without work are among them, as far as they are
// remembered.
func (q *Queue) Views() []View {
	var all []View
	q.each(func(t *target) { all = append(all, t.view(time.Now())) })
	slices.SortFunc(all, func(a, b View) int { return cmp.Compare(a.Target, b.Target) })
	return all
}

// View returns a target and its lanes, those with most to do first and at most so many; false if it is not
// known.
func (q *Queue) View(name string, most int) (View, []LaneView, bool) {
	t := q.find(name)
	if t == nil {
		return View{}, nil, false
	}
	v := t.view(time.Now())
	return v, t.laneViews(most), true
}

func (t *target) view(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.pace.Budget()
	return View{
		Target: t.name, Paused: t.paused, Limits: b.Limits(now), Breaker: *b.Breaker(),
		Backlog: t.backlog, InFlight: b.InFlight(), Lanes: t.active,
	}
}

func (t *target) laneViews(most int) []LaneView {
	t.mu.Lock()
	all := make([]LaneView, 0, len(t.lanes))
	for _, l := range t.lanes {
		all = append(all, LaneView{l.tenant, int(l.backlog), l.flow.OwnRate(), l.flow.CoolsUntil()})
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b LaneView) int {
		return cmp.Or(cmp.Compare(b.Backlog, a.Backlog), slices.Compare(a.Tenant[:], b.Tenant[:]))
	})
	return all[:min(most, len(all))]
}

// AccountQueue is whether a target wants a queue for each tenant; ok is false if it has not said so.
func (q *Queue) AccountQueue(name string) (own, ok bool) {
	t := q.find(name)
	if t == nil {
		return false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.pace.Budget().AccountQueue()
	return h.Value, h.Given()
}
