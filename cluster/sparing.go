package cluster

import (
	"sync/atomic"
	"time"
)

// sparing lets through one log line a second: what it tells of may happen as often as requests come.
type sparing struct{ due atomic.Int64 } // when the next line may be written, in Unix ms

func (s *sparing) may() bool {
	now, due := time.Now().UnixMilli(), s.due.Load()
	return now >= due && s.due.CompareAndSwap(due, now+time.Second.Milliseconds())
}
