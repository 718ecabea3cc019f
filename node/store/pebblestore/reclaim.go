package pebblestore

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// reclaimPause is for how long no job must have come before the store takes to giving room back, and how
	// long it waits after it has found no room for that, twice as long each time up to reclaimMost.
	reclaimPause = 10 * time.Second
	reclaimMost  = 2 * time.Minute
	// reclaimShare is the part of a store that must be garbage before it is worth the work; on a full disk
	// any is.
	reclaimShare = 4
)

// reclaimer gives back what expired jobs have left on disk when no new job comes. As long as new ones
// do, the tables that they make are merged, and what is gone with them; but where intake is closed because the
// disk or the store is full, nothing else would ever make the room that opens it.
type reclaimer struct {
	bytes    atomic.Int64 // of jobs that have expired; what they have brought home is not counted
	inserted atomic.Bool  // a job came since the last look
	wake     chan struct{}
}

func newReclaimer() *reclaimer { return &reclaimer{wake: make(chan struct{}, 1)} }

// reclaim gives room back whenever there is something to give, until closing.
func (s *Store) reclaim() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.readers.Go(func() {
		<-s.closing
		cancel()
	})
	for pause := reclaimPause; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.reclaimer.wake:
		}
		for again := true; again; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			var failed bool
			if again, failed = s.reclaimOnce(ctx); failed {
				pause = min(2*pause, reclaimMost)
			} else {
				pause = reclaimPause
			}
		}
	}
}

// reclaimOnce looks whether it is worth it, and merges all tables then. It reports whether to look again, and
// whether there was no room to merge.
func (s *Store) reclaimOnce(ctx context.Context) (again, failed bool) {
	r := s.reclaimer
	busy := r.inserted.Swap(false)
	metrics := s.db.Metrics()
	bytes := r.bytes.Load()
	garbage := bytes + int64(metrics.Table.Garbage.PointDeletionsBytesEstimate)
	worth := max(int64(metrics.DiskSpaceUsage())/reclaimShare, s.volume.ballast.table)
	full := s.volume.full()
	switch {
	case s.volume.failure() != nil:
		return false, false
	case !full && garbage < worth:
		return false, false
	case !full && busy, s.volume.stuck.Load() > 0, s.volume.stalls.since.Load() != 0:
		// What waits holds the lock that flushing the memtable takes.
		return true, false
	}
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, true); err != nil {
		return true, true
	}
	r.bytes.Add(-bytes)
	return false, false
}
