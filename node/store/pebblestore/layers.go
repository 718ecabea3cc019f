package pebblestore

import (
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// layersMerge is how many layers of tables that flushes have made are merged into the rest. What is merged is
	// written anew together with what it falls among, so more at once write less: 8 save a third of what 4 do.
	layersMerge = 8
	// layersStop is how many of them stop all writes: so many must every read look through.
	layersStop = 40
	// layersFull is how many of them make a disk full where compactions, which would merge them, find
	// no room: accepted work then has as many to go.
	layersFull = layersStop / 2
	// refusalAge is how long a refused compaction counts: longer than it takes to be tried again.
	refusalAge = 2*compactionPause + tablePause
)

// layers knows whether tables pile up because compactions find no room. So little room is left then that
// the disk counts as full although a write still finds some: if new work came, all writes would stop in
// the end.
type layers struct {
	logger *slog.Logger
	high   atomic.Bool
	last   atomic.Int64  // when a compaction was refused, in Unix ms
	wake   chan struct{} // of one: a compaction was refused
}

func newLayers(logger *slog.Logger) *layers {
	return &layers{logger: logger, wake: make(chan struct{}, 1)}
}

// refused says that a compaction has found no room.
func (l *layers) refused() {
	l.last.Store(time.Now().UnixMilli())
	signal(l.wake)
}

// watch counts the layers while compactions are refused, until closing.
func (l *layers) watch(closing <-chan struct{}, count func() int) {
	for {
		select {
		case <-closing:
			return
		case <-l.wake:
		}
		for l.look(count) {
			select {
			case <-closing:
				return
			case <-time.After(ballastCheck):
			}
		}
	}
}

// look reports whether it must look again.
func (l *layers) look(count func() int) bool {
	refused := time.Since(time.UnixMilli(l.last.Load())) < refusalAge
	high := refused && count() >= layersFull
	switch was := l.high.Swap(high); {
	case high && !was:
		l.logger.Warn(diskFull, "cause", "too little is left to merge tables")
	case was && !high:
		l.logger.Info(diskRoom)
	}
	return refused
}

// countLayers returns how many layers of tables wait to be merged; 0 once the store closes.
func (s *Store) countLayers() int {
	if !s.reads.enter() {
		return 0
	}
	defer s.reads.leave()
	return int(s.db.Metrics().Levels[0].Sublevels)
}
