package drain

import "time"

// State is where a node stands between two tenants.
type State string

// The states of a node.
const (
	Active     State = "active"     // has work, or has had some lately
	Draining   State = "draining"   // is idle, and is handed over if it stays so
	Unassigned State = "unassigned" // was handed over, and is free for the next tenant
)

// work is a reading of what a node does.
type work struct {
	unfinished int    // jobs and deliveries
	ended      uint64 // jobs since the start of the process
}

// machine says in which state a node is. It is a value: its methods return the next one.
type machine struct {
	// quiet is for how long there must be no work before the node counts as idle, and timer for how long it
	// must then be idle before it is handed over.
	quiet, timer time.Duration

	state State
	ended uint64
	// busy is when there was work last, or the first reading; idle is when the state became Draining.
	busy, idle time.Time
}

// worked reports whether there is work, or was some since the last reading: a job that has come and gone shows in how
// many have ended.
func (m machine) worked(w work) bool { return w.unfinished > 0 || w.ended != m.ended }

// observe takes a reading and reports whether the node is to be handed over now.
func (m machine) observe(now time.Time, w work) (_ machine, due bool) {
	if m.worked(w) {
		m.state, m.busy, m.ended = Active, now, w.ended
		return m, false
	}
	if m.busy.IsZero() {
		m.busy = now
	}
	if m.state == Active && now.Sub(m.busy) >= m.quiet {
		m.state, m.idle = Draining, now
	}
	return m, m.state == Draining && now.Sub(m.idle) >= m.timer
}

// handedOver is the state after all was told and cleared.
func (m machine) handedOver() machine {
	if m.state == Draining {
		m.state = Unassigned
	}
	return m
}
