package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// indexOf is which turn was the first of a tenant; -1 if none was.
func indexOf(all []started, tenant job.Tenant) int {
	for i, s := range all {
		if s.Lane.Tenant == tenant {
			return i
		}
	}
	return -1
}

func TestFA01_ANewTenantStartsWithinTwoSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(10, 10), Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		stop := q.start(t)
		a, b := laneOf("api", 1), laneOf("api", 2)
		q.add(a, 1000)
		time.Sleep(3 * time.Second)
		before := len(s.all())
		q.add(b, 1)
		q.idle(t)
		stop()
		if at := indexOf(s.all(), b.Tenant); at < 0 || at-before > 1 {
			t.Errorf("B was dispatched as number %d after it came", at-before+1)
		}
		q.empty(t)
	})
}

func TestAQuietTenantWaitsForOneTurnOfEachBusyOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(100, 10), Window: 8, Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		stop := q.start(t)
		const busy = 30
		for i := range busy {
			q.add(laneOf("api", i), 100)
		}
		for quiet := busy; quiet < 2*busy; quiet++ {
			time.Sleep(170 * time.Millisecond)
			before := len(s.all())
			q.add(laneOf("api", quiet), 1)
			time.Sleep(time.Second)
			if at := indexOf(s.all(), laneOf("api", quiet).Tenant); at < 0 || at-before > busy {
				t.Errorf("tenant %d waited for %d turns of %d others", quiet, at-before, busy)
			}
		}
		q.idle(t)
		stop()
		q.empty(t)
	})
}

func TestTenantsShareEqually(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1000, 50), Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		q.add(laneOf("api", 1), 10_000)
		q.add(laneOf("api", 2), 1000)
		q.add(laneOf("api", 3), 1000)
		stop := q.start(t)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		counts := map[job.Tenant]int{}
		for _, one := range s.all() {
			counts[one.Lane.Tenant]++
		}
		for i := 1; i <= 3; i++ {
			if n := counts[laneOf("api", i).Tenant]; n < 665 || n > 672 {
				t.Errorf("tenant %d got %d of some 2000 turns", i, n)
			}
		}
		q.idle(t)
		stop()
	})
}

// A tenant that queues its next job when one is sent gets no more than one that queues all at once.
func TestOneJobAtATimeIsNoWayToTheFront(t *testing.T) {
	bubble(t, func(t *testing.T) {
		counts := map[job.Tenant]int{}
		busy, quick := laneOf("api", 1), laneOf("api", 2)
		var q *rig
		q = newRig(Config{Settings: settings(1e9, 1), Runner: runner(func(t *Turn) Verdict {
			counts[t.Entry.Lane.Tenant]++
			if t.Entry.Lane == quick && counts[busy.Tenant] < 500 {
				q.add(quick, 1)
			}
			time.Sleep(time.Millisecond)
			return Ended
		})})
		q.add(busy, 1000)
		q.add(quick, 1)
		stop := q.start(t)
		q.idle(t)
		stop()
		q.empty(t)
		if n := counts[quick.Tenant]; n < 499 || n > 501 {
			t.Errorf("%d turns against 500", n)
		}
	})
}

func TestALaneIsFirstInFirstOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1000, 1), Window: 4, Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		stop := q.start(t)
		for range 20 {
			q.add(laneOf("api", 1), 50)
			time.Sleep(20 * time.Millisecond)
		}
		q.idle(t)
		stop()
		all := s.all()
		for i := range all {
			if all[i].Order != job.Order(i+1) {
				t.Fatalf("turn %d is of the entry with order %d", i+1, all[i].Order)
			}
		}
		if len(all) != 1000 {
			t.Errorf("%d turns, want 1000", len(all))
		}
	})
}
