package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Workers wait for more to do, one that is needed for as long as it is; those that are not end after a moment.
func TestWorkersThatAreNotNeededEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(Config{Settings: settings(1e9, 20), Runner: ctxRunner(func(context.Context) { time.Sleep(time.Millisecond) })})
		stop := r.start(t)
		idle := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			r.workers.mu.Lock()
			defer r.workers.mu.Unlock()
			if n := len(r.workers.idle); n != want {
				t.Errorf("%s %d workers are idle, want %d", when, n, want)
			}
		}
		r.add(laneOf("api", 1), 20)
		r.idle(t)
		idle(20, "after twenty turns at a time")
		time.Sleep(workerIdle - 10*time.Millisecond)
		idle(20, "a little later")
		for range 10 {
			r.add(laneOf("api", 1), 1)
			time.Sleep(workerIdle / 5)
		}
		idle(1, "after turns that one worker took")
		time.Sleep(2 * workerIdle)
		idle(0, "after the last turn")

		r.add(laneOf("api", 1), 3)
		r.idle(t)
		idle(3, "after three turns")
		stop()
		idle(0, "at the end of Run")
		stop = r.start(t)
		r.add(laneOf("api", 1), 2)
		r.idle(t)
		idle(2, "when Run was called again")
		stop()
		r.empty(t)
	})
}
