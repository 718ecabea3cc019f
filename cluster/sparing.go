package cluster

import (
	"sync/atomic"
	"time"
)

// sparing lets through one log line at a time: what it tells of may happen as often as requests come.
type sparing struct{ due atomic.Int64 } // when the next line may be written, in Unix ms

// may reports whether a line may be written now, the next one not before the pause is over.
func (s *sparing) may(pause time.Duration) bool {
	now, due := time.Now().UnixMilli(), s.due.Load()
	return now >= due && s.due.CompareAndSwap(due, now+pause.Milliseconds())
}
