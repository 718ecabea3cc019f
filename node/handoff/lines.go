package handoff

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Line is a queue that work joins which was handed over. *queue.Queue is one.
type Line interface {
	// Reserve counts work that is about to stand in a lane.
	Reserve(lane job.Lane, id job.ID) *queue.Place
	// RestoreWaiting counts work that is about to stand among what is due.
	RestoreWaiting(lane job.Lane, id job.ID)
	// Gone takes work from the count that does not stand among what is due after all.
	Gone(lane job.Lane, id job.ID)
}

// Lines are where work waits.
type Lines struct {
	Calls      Line
	Deliveries Line
	// Wake is told when something new comes due.
	Wake func(at time.Time)
}

// coming is work that is about to stand in its place: the store shows it before the queue is told.
type coming struct {
	lines *Lines
	work  store.Handed
	place *queue.Place // nil for what is due
}

func (l *Lines) of(h store.Handed) Line {
	if h.Line() == job.Deliveries {
		return l.Deliveries
	}
	return l.Calls
}

// expect counts work before it is stored.
func (l *Lines) expect(h store.Handed) coming {
	c := coming{lines: l, work: h}
	if lane := h.Place().Lane; h.DueAt() == 0 {
		c.place = l.of(h).Reserve(lane, h.Job.ID)
	} else {
		l.of(h).RestoreWaiting(lane, h.Job.ID)
	}
	return c
}

// arrive says that the work is stored, in its lane at the order if it does not wait for its time.
func (c coming) arrive(order job.Order) {
	if c.place != nil {
		e := c.work.Place()
		e.Order = order
		c.place.Push(e, nil)
	} else {
		c.lines.Wake(time.UnixMilli(c.work.DueAt()))
	}
	if c.work.Line() == job.Calls {
		c.lines.Wake(time.UnixMilli(c.work.Job.Deadline))
	}
}

// cancel says that the work was not stored.
func (c coming) cancel() {
	if c.place != nil {
		c.place.Cancel()
		return
	}
	c.lines.of(c.work).Gone(c.work.Place().Lane, c.work.Job.ID)
}
