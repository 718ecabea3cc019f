package pace

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

func (s *Share[T]) rests(f *Flow[T]) bool { return f.prev != nil || s.resting == f }
