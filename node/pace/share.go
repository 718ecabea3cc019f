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

// Flow is one party of a Share. It belongs to one Share at a time and must not be copied while in it.
type Flow[T any] struct {
	// Lane is whom the flow stands for.
	Lane T

	finish     float64 // virtual time at which its last turn ends
	waiting    bool    // it is in Share.waiting
	prev, next *Flow[T]
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
	s.added++
	s.waiting = append(s.waiting, turn[T]{max(s.now, f.finish), s.added, f})
	s.up(len(s.waiting) - 1)
}

// Next returns the flow whose turn it is, nil if none has work.
func (s *Share[T]) Next() *Flow[T] {
	if len(s.waiting) == 0 {
		return nil
	}
	return s.waiting[0].flow
}

// Serve gives the flow that Next returns its turn, and tells whether it has more work. cost is what the
// turn costs, 0 if the flow turned out to have no work; weight is the flow's part relative to that of
// others, and positive.
func (s *Share[T]) Serve(cost, weight float64, more bool) {
	top := &s.waiting[0]
	f := top.flow
	s.now = top.start
	f.finish = s.now + cost/weight
	s.last = max(s.last, f.finish)
	if more {
		s.added++
		top.start, top.added = f.finish, s.added
		s.down()
		return
	}
	f.waiting = false
	n := len(s.waiting) - 1
	*top, s.waiting[n] = s.waiting[n], turn[T]{}
	s.waiting = s.waiting[:n]
	s.down()
	s.rest(f)
}

// Forget returns a flow without work whose past has no influence on its future, so that the owner
// may drop it, and nil if there is none. Each flow is returned once. A Share that is served and
// added to is tidy if Forget is called twice each time.
func (s *Share[T]) Forget() *Flow[T] {
	f := s.resting
	if f == nil || f.finish > s.Now() {
		return nil
	}
	s.unrest(f)
	return f
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

// rest puts f at the end of the resting ones.
func (s *Share[T]) rest(f *Flow[T]) {
	if f.prev = s.newest; f.prev != nil {
		f.prev.next = f
	} else {
		s.resting = f
	}
	s.newest = f
}

// unrest takes f out of the resting ones, if it is there.
func (s *Share[T]) unrest(f *Flow[T]) {
	if f.prev != nil {
		f.prev.next = f.next
	} else if s.resting == f {
		s.resting = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else if s.newest == f {
		s.newest = f.prev
	}
	f.prev, f.next = nil, nil
}

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
