package pebblestore

import (
	"sync/atomic"
	"time"
)

// seldomPause is the least time between two lines that say the same.
const seldomPause = 10 * time.Second

// seldom says when a line may be written that could be written all the time. It is safe for concurrent use.
type seldom struct {
	next atomic.Int64 // when the next line may be written, in Unix ms; who moves it writes the line
	kept atomic.Int64 // lines kept back since the last one
}

// may reports whether the caller may write its line, and how many were kept back before.
func (s *seldom) may() (kept int64, ok bool) {
	now, next := time.Now().UnixMilli(), s.next.Load()
	if now < next || !s.next.CompareAndSwap(next, now+seldomPause.Milliseconds()) {
		s.kept.Add(1)
		return 0, false
	}
	return s.kept.Swap(0), true
}
