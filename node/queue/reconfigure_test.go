package queue

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/pace"
)

// What holds for a target may change at the very moment at which the queue has asked for it: when it meets the target, and
// when it has been told of another change. The later one wins all the same.
func TestTheLatestSettingsHold(t *testing.T) {
	for name, held := range map[string]func(q *Queue) bool{
		"met":   func(q *Queue) bool { return !try(q.mu.TryRLock, q.mu.RUnlock) },
		"known": func(q *Queue) bool { mu := &q.find("http://api").mu; return !try(mu.TryLock, mu.Unlock) },
	} {
		t.Run(name, func(t *testing.T) {
			var q *rig
			var changing sync.WaitGroup
			var rps atomic.Int64
			var armed atomic.Bool
			rps.Store(1)
			q = newRig(Config{Settings: func(string) pace.Settings {
				s := pace.Settings{RPS: float64(rps.Load()), MaxConcurrent: 1}
				if armed.CompareAndSwap(true, false) {
					rps.Store(2)
					if held(q.Queue) { // the others come when this call has returned
						changing.Go(func() { q.Reconfigure(nil) })
					} else {
						q.Reconfigure(nil)
					}
				}
				return s
			}})
			armed.Store(name == "met")
			q.add(laneOf("api", 1), 1)
			if name == "known" {
				armed.Store(true)
				q.Reconfigure(nil)
			}
			changing.Wait()
			if rate := q.Load(laneOf("api", 1)).Rate; rate != 2 {
				t.Errorf("%v turns a second are allowed, want 2", rate)
			}
		})
	}
}

// try reports whether a lock is free.
func try(lock func() bool, unlock func()) bool {
	if !lock() {
		return false
	}
	unlock()
	return true
}
