package queue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/pace"
)

// When a limit comes to be divided otherwise, that holds at once; but it is no fresh start, so a tenant that was told to
// wait goes on waiting.
func TestPartsChangeThePaceAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var parts atomic.Int64
		parts.Store(1)
		var s starts
		q := newRig(Config{
			Settings: func(string) pace.Settings {
				n := int(parts.Load())
				return pace.Settings{RPS: 30, MaxConcurrent: 9, Parts: pace.Parts{RPS: n, MaxConcurrent: n}}
			},
			Runner: runner(func(turn *Turn) Verdict {
				s.note(turn)
				if turn.Entry.Lane == laneOf("api", 1) {
					turn.Release(pace.Signal{Status: 429, Failed: true, RetryAfter: pace.RetryAfter{Wait: time.Hour, OK: true}})
				}
				return Ended
			}),
		})
		stop := q.start(t)
		q.add(laneOf("api", 1), 2)
		time.Sleep(time.Second)
		q.add(laneOf("api", 2), 1000)
		for _, c := range []struct{ parts, want int }{{1, 300}, {3, 100}, {2, 150}} {
			parts.Store(int64(c.parts))
			q.Reconfigure(nil)
			if rate := q.Load(laneOf("elsewhere", 1)).Rate; rate != float64(30/c.parts) {
				t.Errorf("a target that is not known has a rate of %v", rate)
			}
			before := len(s.all())
			time.Sleep(10 * time.Second)
			if n := len(s.all()) - before; n < c.want-2 || n > c.want+2 {
				t.Errorf("%d turns in 10 s of one of %d parts", n, c.parts)
			}
		}
		waits := 0
		for _, turn := range s.all() {
			if turn.Lane == laneOf("api", 1) {
				waits++
			}
		}
		if waits != 1 {
			t.Errorf("the tenant that was told to wait had %d turns", waits)
		}
		q.idle(t)
		stop()
	})
}
