package queue

import "time"

// hands are the goroutines that run turns. One that is done waits a moment for another turn: its stack
// has grown to what a turn needs, and growing a new one costs more than all else that starts a turn.
type hands struct{ errands chan errand }

// errand is a turn to run.
type errand struct {
	target *target
	run    *run
	turn   *Turn
}

// handRests is how long a hand waits for another turn.
const handRests = time.Second

func newHands() hands { return hands{errands: make(chan errand)} }

// give has a turn run, by a hand that waits or by a new one. It does not block.
func (h hands) give(e errand) {
	select {
	case h.errands <- e:
	default:
		e.target.q.working.Add(1)
		go h.serve(e)
	}
}

// serve runs turns until none comes for a moment, or turns no longer start.
func (h hands) serve(e errand) {
	defer e.target.q.working.Done()
	rest := time.NewTimer(handRests)
	defer rest.Stop()
	for {
		e.target.take(e.run, e.turn)
		rest.Reset(handRests)
		select {
		case e = <-h.errands:
		case <-e.run.reads.Done():
			return
		case <-rest.C:
			return
		}
	}
}
