package queue

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

func TestRateIsExactWhateverTheNumberOfTenants(t *testing.T) {
	for _, tenants := range []int{1, 10, 1000} {
		t.Run(fmt.Sprint(tenants), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var s starts
				var open peak
				q := newRig(Config{Settings: settings(50, 20), Runner: runner(func(t *Turn) Verdict {
					s.note(t)
					defer open.add(1)()
					time.Sleep(300 * time.Millisecond)
					return Ended
				})})
				for i := range 1000 {
					q.add(laneOf("api", i%tenants), 1)
				}
				stop := q.start(t)
				q.idle(t)
				stop()
				q.empty(t)
				all := s.all()
				if n := most(all, time.Second); n > 51 {
					t.Errorf("%d starts in one second", n)
				}
				if took := all[len(all)-1].at.Sub(all[0].at); took > 20*time.Second*50/49 {
					t.Errorf("1000 starts took %v, want 20s", took)
				}
				if open.most > 20 {
					t.Errorf("%d were open at a time", open.most)
				}
			})
		})
	}
}

func TestConcurrencyIsExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var open peak
		q := newRig(Config{Settings: settings(1e9, 3), Runner: runner(func(*Turn) Verdict {
			defer open.add(1)()
			time.Sleep(time.Second)
			return Ended
		})})
		stop := q.start(t)
		from := time.Now()
		for i := range 30 {
			q.add(laneOf("api", i%7), 10)
		}
		q.idle(t)
		if took := time.Since(from); took != 100*time.Second || open.most != 3 {
			t.Errorf("300 turns of 1 s took %v, at most %d open at a time; want 100s and 3", took, open.most)
		}
		stop()
		q.empty(t)
	})
}

func TestHighRateIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(5000, 100), Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		q.add(laneOf("api", 1), 20_000)
		stop := q.start(t)
		q.idle(t)
		stop()
		all := s.all()
		if took := all[len(all)-1].at.Sub(all[0].at); took < 3920*time.Millisecond || took > 4080*time.Millisecond {
			t.Errorf("20000 starts at 5000 rps took %v", took)
		}
	})
}

func TestTargetsKeepTheirOwnPace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1, 1), Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		stop := q.start(t)
		const targets = 200
		for i := range targets {
			q.add(laneOf(fmt.Sprint("api", i), 1), 10)
		}
		q.idle(t)
		stop()
		q.empty(t)
		last := map[job.Lane]time.Time{}
		for _, one := range s.all() {
			if before, ok := last[one.Lane]; ok && one.at.Sub(before) < time.Second-pace.Slack {
				t.Fatalf("%s: %v between two starts", one.Lane.Target, one.at.Sub(before))
			}
			last[one.Lane] = one.at
		}
		if took := s.all()[10*targets-1].at.Sub(s.all()[0].at); took > 9*time.Second {
			t.Errorf("10 starts each took %v", took)
		}
	})
}

func TestPaceHoldsAcrossIdleMoments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1, 5), Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		stop := q.start(t)
		for range 10 {
			q.add(laneOf("api", 1), 1)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		q.idle(t)
		stop()
		if n := most(s.all(), time.Second); n > 2 {
			t.Errorf("%d starts in one second", n)
		}
	})
}

func TestReconfigureAppliesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var rps atomic.Int64
		rps.Store(1)
		q := newRig(Config{
			Settings: func(string) pace.Settings { return pace.Settings{RPS: float64(rps.Load()), MaxConcurrent: 100} },
			Runner:   runner(func(*Turn) Verdict { return Ended }),
		})
		stop := q.start(t)
		q.add(laneOf("api", 1), 1000)
		time.Sleep(10 * time.Second)
		if n := q.Stats().Backlog; n < 985 {
			t.Errorf("%d left after 10 s at 1 rps", n)
		}
		rps.Store(1000)
		q.Reconfigure(nil)
		time.Sleep(time.Second)
		if n := q.Stats().Backlog; n > 0 {
			t.Errorf("%d left after 1 s at 1000 rps", n)
		}
		if rate := q.Load(laneOf("api", 1)).Rate; rate != 1000 {
			t.Errorf("rate is %v", rate)
		}
		stop()
	})
}

func TestPC05_WaitingForASlotIsNoTry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(100, 1), Runner: runner(func(t *Turn) Verdict {
			s.note(t)
			time.Sleep(10 * time.Second)
			return Ended
		})})
		stop := q.start(t)
		q.add(laneOf("api", 1), 1)
		q.add(laneOf("api", 2), 1)
		q.idle(t)
		stop()
		all := s.all()
		if len(all) != 2 || all[1].at.Sub(all[0].at) != 10*time.Second {
			t.Errorf("turns: %v; want the second once, when the slot is free", all)
		}
	})
}

func TestPC09_ALongTurnKeepsItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(100, 1), Runner: runner(func(t *Turn) Verdict {
			s.note(t)
			time.Sleep(7 * time.Minute)
			return Ended
		})})
		stop := q.start(t)
		q.add(laneOf("api", 1), 1)
		for range 7*60 - 1 {
			time.Sleep(time.Second)
			if n := q.Stats().InFlight; n != 1 {
				t.Fatalf("%d in flight", n)
			}
		}
		q.idle(t)
		stop()
		if n := len(s.all()); n != 1 {
			t.Errorf("%d turns", n)
		}
		q.empty(t)
	})
}

func TestReleaseFreesTheSlotBeforeTheTurnEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1e9, 1), Runner: runner(func(t *Turn) Verdict {
			time.Sleep(time.Second)
			t.Release(pace.Signal{})
			t.Release(pace.Signal{})
			time.Sleep(time.Hour)
			return Ended
		})})
		stop := q.start(t)
		q.add(laneOf("api", 1), 5)
		time.Sleep(5500 * time.Millisecond)
		if s := q.Stats(); s.Waiting != 0 || s.InFlight != 0 || s.Backlog != 5 {
			t.Errorf("after 5 turns of 1 s: %+v", s)
		}
		q.idle(t)
		stop()
		q.empty(t)
	})
}
