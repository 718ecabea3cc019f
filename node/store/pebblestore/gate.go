package pebblestore

import "sync/atomic"

// gate counts those who are inside and lets nobody in once it is shut. Unlike a read lock it never makes
// an entrant wait, so one who is inside may enter again while another shuts it.
type gate struct {
	// state is the number of those inside, plus shut.
	state atomic.Int64
	left  chan struct{} // of one: somebody has left a gate that is shut
	out   func()        // leave, for who hands it on: made once, as each entrant may do so
}

const shut = 1 << 62

func newGate() *gate {
	g := &gate{left: make(chan struct{}, 1)}
	g.out = g.leave
	return g
}

// enter reports whether the gate is open; then the caller is inside until it leaves.
func (g *gate) enter() bool {
	if g.state.Add(1) < shut {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) >= shut {
		signal(g.left)
	}
}

// close shuts the gate, once, and returns when nobody is inside.
func (g *gate) close() {
	for n := g.state.Add(shut); n != shut; n = g.state.Load() {
		<-g.left
	}
}
