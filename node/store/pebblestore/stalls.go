package pebblestore

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// stalls tells when Pebble holds writes back until flushes or compactions have caught up. Its methods are
// called under Pebble's lock.
type stalls struct {
	logger *slog.Logger
	lines  seldom
	count  atomic.Int64
	since  atomic.Int64 // when the stall that is on has begun, in Unix ms; 0 for none
	told   atomic.Bool  // its beginning stands in the log
}

func (s *stalls) begin(info pebble.WriteStallBeginInfo) {
	s.count.Add(1)
	s.since.Store(time.Now().UnixMilli())
	if kept, ok := s.lines.may(); ok {
		s.told.Store(true)
		s.logger.Warn("writes are held back", "cause", info.Reason, "more_before", kept)
	}
}

func (s *stalls) end() {
	since := s.since.Swap(0)
	if s.told.Swap(false) {
		s.logger.Info("writes go on", "held_back", time.Since(time.UnixMilli(since)).String())
	}
}
