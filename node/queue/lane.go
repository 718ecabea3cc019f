package queue

import (
	"math"
	"slices"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// lane is what one tenant has to do at one target. It is guarded by the target's lock, and it exists
// while it has unfinished work or its last turns matter to the others.
type lane struct {
	target *target
	tenant job.Tenant
	flow   pace.Flow[*lane]
	window []*Place  // what is waiting, by order
	high   job.Order // the highest order that has been in memory

	backlog int32 // unfinished work
	places  int32 // places that are present

	more      bool // there may be entries behind high that are only on disk
	dirty     bool // an entry was left on disk since the reader cleared this
	refilling bool // it stands in target.refills, or is being read

	// lost is what left the lane while it is being read: of each id the highest order that is gone. It
	// is nil while the lane is not being read.
	lost map[job.ID]job.Order
}

// shared reports whether tenants share the lane.
func (l *lane) shared() bool { return l.tenant == job.Tenant{} }

func (l *lane) name() job.Lane { return job.Lane{Target: l.target.name, Tenant: l.tenant} }

func (l *lane) entry(p *Place) job.Entry { return job.Entry{Lane: l.name(), Order: p.order, ID: p.id} }

// insert puts a place into the window, by order. It nearly always belongs at the end.
func (l *lane) insert(p *Place) {
	at := len(l.window)
	for at > 0 && l.window[at-1].order > p.order {
		at--
	}
	l.window = slices.Insert(l.window, at, p)
	p.state = waiting
}

// remove takes a place out of the window.
func (l *lane) remove(p *Place) {
	at := slices.Index(l.window, p)
	l.window = slices.Delete(l.window, at, at+1)
}

// gone notes, if the lane is being read, that no entry of a job that was visible until now is to be
// taken.
func (l *lane) gone(id job.ID) {
	if l.lost != nil {
		l.lost[id] = math.MaxUint64
	}
}

// back notes, if the lane is being read, that a job has come back at this order.
func (l *lane) back(id job.ID, order job.Order) {
	if _, lost := l.lost[id]; lost {
		l.lost[id] = order - 1
	}
}

// takes reports whether an entry that was read is only on disk.
func (l *lane) takes(e job.Entry) bool {
	if l.target.present[e.ID] != nil {
		return false
	}
	until, lost := l.lost[e.ID]
	return !lost || e.Order > until
}
