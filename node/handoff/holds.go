package handoff

import (
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Holds are the jobs that a node is at work on although its store shows them as waiting: a delivery is being sent, or
// a stream may still confirm that it is not needed. A Giver leaves them where they are, or they would be delivered by
// two nodes. Holds are safe for concurrent use; a nil one is that of a node that hands nothing over, and does nothing.
type Holds struct {
	mu     sync.Mutex // guards all: after Close, what is held is known
	closed bool
	held   map[job.ID]int // how often
}

// NewHolds returns holds of nothing.
func NewHolds() *Holds { return &Holds{held: make(map[job.ID]int)} }

// Enter holds a job unless Close came before. Whoever gets false must not begin to work on it: it may be given away.
func (h *Holds) Enter(id job.ID) bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.held[id]++
	return true
}

// Hold holds a job also after Close. It must come before the store shows the work as waiting.
func (h *Holds) Hold(id job.ID) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[id]++
}

// Free ends one Enter or Hold.
func (h *Holds) Free(id job.ID) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[id]--; h.held[id] == 0 {
		delete(h.held, id)
	}
}

// Close ends that work is begun. It comes before the first Drain.
func (h *Holds) Close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// has reports whether a job is held.
func (h *Holds) has(id job.ID) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[id] > 0
}
