package pace

// Share divides the turns of one target among the flows that have work for it, by start-time fair
// queueing (Goyal, Vin, Cheng, SIGCOMM 1996): while two flows have work, what they get differs from
// their weights by at most the cost of one turn of each. A flow that comes to have work is put where
// virtual time stands, neither behind what others got while it had none nor ahead of its own last
// turns.
//
// Nothing is kept per flow but what is in Flow. The zero Share is empty. It has one owner at a time.
type Share[T any] struct {
	waiting []turn[T] // a heap: the next turn is at 0, the children of i from 4i+1 on
	now     float64   // virtual time: the start of the latest turn; never goes back
	last    float64   // the latest finish of all turns
	added   uint64    // orders equal starts by when they were added

	// resting are the flows without work whose last turn ends after now, the longest resting first.
	resting, newest *Flow[T]
}

type turn[T any] struct {
	start float64
	added uint64
	flow  *Flow[T]
}

func (a *turn[T]) before(b *turn[T]) bool {
	return a.start < b.start || a.start == b.start && a.added < b.added
}

// Add tells that a flow has work. It does nothing if that is known.
func (s *Share[T]) Add(f *Flow[T]) {
	if f.waiting {
		return
	}
	if len(s.waiting) == 0 { // nobody was kept waiting, so nobody owes anything
		s.now = max(s.now, s.last)
	}
	s.unrest(f)
	f.waiting = true
	f.finish = max(s.now, f.finish)
	s.added++
	s.waiting = append(s.waiting, turn[T]{f.finish, s.added, f})
	s.up(len(s.waiting) - 1)
}

// Next returns the flow whose turn it is, nil if none has work.
func (s *Share[T]) Next() *Flow[T] {
	if len(s.waiting) == 0 {
		return nil
	}
	for top := &s.waiting[0]; top.start < top.flow.finish; { // charged since it was put there
		top.start = top.flow.finish
		s.down()
	}
	return s.waiting[0].flow
}

// Serve gives the flow that Next returns its turn, and tells whether it has more work. cost is what the
// turn costs, 0 if the flow turned out to have no work; weight is the flow's part relative to that of
// others, and positive.
func (s *Share[T]) Serve(cost, weight float64, more bool) {
	top := &s.waiting[0]
	f := top.flow
	s.now = max(s.now, f.finish)
	s.Charge(f, cost, weight)
	if more {
		s.added++
		top.start, top.added = f.finish, s.added
		s.down()
		return
	}
	s.pop()
	s.rest(f)
}

// Charge adds to the cost of a flow's turns, or takes from it, when that is known only afterwards.
func (s *Share[T]) Charge(f *Flow[T], cost, weight float64) {
	f.finish += cost / weight
	s.last = max(s.last, f.finish)
}

// pop takes out the flow that is next.
func (s *Share[T]) pop() {
	s.waiting[0].flow.waiting = false
	n := len(s.waiting) - 1
	s.waiting[0], s.waiting[n] = s.waiting[n], turn[T]{}
	s.waiting = s.waiting[:n]
	s.down()
}

// Now is the virtual time, in cost by weight.
func (s *Share[T]) Now() float64 {
	if len(s.waiting) == 0 {
		return max(s.now, s.last)
	}
	return s.now
}

// Len is how many flows have work.
func (s *Share[T]) Len() int { return len(s.waiting) }

func (s *Share[T]) up(i int) {
	moved := s.waiting[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !moved.before(&s.waiting[parent]) {
			break
		}
		s.waiting[i] = s.waiting[parent]
		i = parent
	}
	s.waiting[i] = moved
}

// down puts the turn at 0 where it belongs.
func (s *Share[T]) down() {
	h := s.waiting
	if len(h) < 2 {
		return
	}
	moved, i := h[0], 0
	for {
		least := 4*i + 1
		if least >= len(h) {
			break
		}
		for c, end := least+1, min(least+4, len(h)); c < end; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&moved) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = moved
}
