package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// held are turns that last until they are told how to end.
type held struct {
	began chan *Turn
	ends  chan Verdict
}

func newHeld() held { return held{make(chan *Turn, 100), make(chan Verdict)} }

func (h held) Run(_ context.Context, t *Turn) Verdict {
	h.began <- t
	return <-h.ends
}

// direct starts a turn past the queue, and reports whether there may be one.
func (r *rig) direct(l job.Lane, run Runner) (job.Entry, bool) {
	r.ids++
	p, _ := r.Direct(l, id(r.ids))
	if p == nil {
		return job.Entry{}, false
	}
	e := r.disk.insert(l, id(r.ids))
	return e, p.Start(e, nil, run)
}

// What is configured holds back no turn past the queue; what is queued waits for the slots.
func TestTurnsPastTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var queued []*Turn
		r := newRig(Config{Settings: settings(1, 1), Runner: runner(func(t *Turn) Verdict { queued = append(queued, t); return Ended })})
		stop := r.start(t)
		defer stop()
		synctest.Wait()
		h, l := newHeld(), laneOf("api", 1)
		for range 3 {
			if _, ok := r.direct(l, h); !ok {
				t.Fatal("a turn past an empty queue was refused")
			}
		}
		seen := map[int]bool{}
		for range 3 {
			load := (<-h.began).Load()
			seen[load.TargetBacklog] = load.Rate == 0
		}
		if !seen[1] || !seen[2] || !seen[3] {
			t.Errorf("they told their target %v", seen)
		}
		if s := r.Stats(); s.InFlight != 3 || s.Waiting != 0 || s.Backlog != 3 {
			t.Errorf("%+v", s)
		}
		r.add(l, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(queued) != 0 {
			t.Error("a job was sent while all slots were taken")
		}
		if p, _ := r.Direct(laneOf("api", 2), id(100)); p != nil {
			t.Error("a turn went past a job that waits")
		}
		if p, _ := r.Direct(laneOf("other", 2), id(101)); p == nil {
			t.Error("the queue of another target mattered")
		}
		for range 3 {
			h.ends <- Ended
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(queued) != 1 {
			t.Errorf("%d jobs were sent when the slots came free", len(queued))
		}
	})
}

// A limit that the target has asked for, its breaker and a pause hold back turns past the queue.
func TestWhatHoldsBackATurnPastTheQueue(t *testing.T) {
	for name, c := range map[string]struct {
		said   pace.Signal
		paused bool
		open   int
	}{
		"max concurrent": {said: pace.Signal{Status: 200, MaxConcurrent: pace.Hint[int]{Value: 2, Header: "X-Aqueduct-Max-Concurrent"}}, open: 2},
		"rps":            {said: pace.Signal{Status: 200, RPS: pace.Hint[float64]{Value: 1, Header: "X-Aqueduct-Rps"}}, open: 1},
		"breaker":        {said: pace.Signal{Status: 429, Overload: pace.Overload{Kind: pace.BreakerQueue, Reason: pace.Overloaded}}},
		"pause":          {said: pace.Signal{Status: 200}, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				paused := false
				r := newRig(Config{Settings: func(string) pace.Settings {
					return pace.Settings{RPS: 1000, MaxConcurrent: 1000, Breaker: pace.Cooldown{Default: time.Hour}, HintTTL: time.Hour}
				}, Paused: func(string) bool { return paused }})
				stop := r.start(t)
				defer stop()
				synctest.Wait()
				l := laneOf("api", 1)
				_, ok := r.direct(l, runner(func(t *Turn) Verdict { t.Release(c.said); return Ended }))
				r.idle(t)
				paused = c.paused
				r.Reconfigure(nil)
				time.Sleep(time.Minute)
				h, open := newHeld(), 0
				for range 5 {
					if _, ok := r.direct(l, h); ok {
						open++
					}
				}
				if !ok || open != c.open {
					t.Errorf("%d turns past the queue, want %d", open, c.open)
				}
				for range open {
					h.ends <- Ended
				}
			})
		})
	}
}

// A turn that does not start gives its slot back, and so does one that is over, however it ends.
func TestSlotsPastTheQueueReturn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(Config{Settings: settings(1000, 1), Runner: runner(func(*Turn) Verdict { return Ended })})
		stop := r.start(t)
		synctest.Wait()
		l := laneOf("api", 1)
		p, _ := r.Direct(l, id(1))
		p.Cancel()
		p.Cancel()
		if p.Start(job.Entry{}, nil, nil) {
			t.Error("a turn started that was given up")
		}
		_, _ = r.direct(l, runner(func(*Turn) Verdict { panic("broken") }))
		r.idle(t)
		if s := r.Stats(); s != (Stats{}) {
			t.Errorf("left %+v", s)
		}
		e, _ := r.direct(l, runner(func(*Turn) Verdict { return Waits }))
		r.idle(t)
		if s := r.Stats(); s.Backlog != 1 || s.InFlight != 0 {
			t.Errorf("with one that waits for its retry there is %+v", s)
		}
		if p, _ := r.Direct(l, id(50)); p != nil {
			t.Error("a turn went past a job that waits for its retry")
		}
		r.Resume(l, e.ID).Push(r.disk.insert(l, e.ID), nil)
		r.idle(t)
		late, _ := r.Direct(l, id(60))
		stop()
		if late.Start(r.disk.insert(l, id(60)), nil, newHeld()) {
			t.Error("a turn started although turns start no longer")
		}
		if s := r.Stats(); s.Waiting != 1 || s.InFlight != 0 || s.Backlog != 1 {
			t.Errorf("the job of it waits with %+v", s)
		}
		stop = r.start(t)
		synctest.Wait()
		r.idle(t)
		r.empty(t)
		stop()
	})
}
