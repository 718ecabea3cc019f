package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// A retry that comes due before the turn that asked for it has returned waits until it has.
func TestAJobHasOneTurnAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1e9, 10), Runner: runner(func(t *Turn) Verdict {
			s.note(t)
			t.Release(pace.Signal{})
			time.Sleep(time.Minute)
			return Waits
		})})
		stop := q.start(t)
		l := laneOf("api", 1)
		q.add(l, 1)
		synctest.Wait()
		q.Resume(l, id(1)).Push(job.Entry{Lane: l, Order: 9, ID: id(1)}, nil)
		time.Sleep(time.Second)
		if s := q.Stats(); s.Backlog != 1 || s.Waiting != 1 {
			t.Errorf("while both are there: %+v", s)
		}
		q.idle(t)
		stop()
		all := s.all()
		if len(all) != 2 || all[1].Order != 9 || all[1].at.Sub(all[0].at) != time.Minute {
			t.Errorf("turns: %v", all)
		}
		q.Gone(l, id(1))
		q.empty(t)
	})
}

func TestPC03_OneAtATimeAfterARefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var open peak
		var q *rig
		l, tries := laneOf("api", 1), 0
		q = newRig(Config{Settings: settings(1e9, 1), Runner: runner(func(t *Turn) Verdict {
			done := open.add(1)
			time.Sleep(100 * time.Millisecond)
			done()
			if tries++; tries > 1 {
				return Ended
			}
			t.Release(pace.Signal{Status: 429, Failed: true, RetryAfter: pace.RetryAfter{Wait: time.Second, OK: true}})
			time.AfterFunc(time.Second, func() { q.Resume(l, t.Entry.ID).Push(q.disk.insert(l, t.Entry.ID), nil) })
			return Waits
		})})
		stop := q.start(t)
		q.add(l, 3)
		time.Sleep(time.Minute + pace.DefaultIdle) // until it is forgotten that the tenant was slowed down
		stop()
		if tries != 4 || open.most != 1 {
			t.Errorf("%d turns, at most %d open", tries, open.most)
		}
		q.empty(t)
	})
}

// Work that is withdrawn is never sent, wherever it waited.
func TestWithdrawnWorkIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var s starts
		q := newRig(Config{Settings: settings(1e9, 1), Window: 4, Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended })})
		l := laneOf("api", 1)
		q.add(l, 20)
		all := q.disk.lanes[l]
		for i := 1; i < len(all); i += 2 {
			for range 2 {
				if !q.Withdraw(all[i]) {
					t.Errorf("entry %d is not withdrawn", i)
				}
			}
		}
		stop := q.start(t)
		time.Sleep(time.Second)
		for i := 1; i < len(all); i += 2 {
			q.Gone(l, all[i].ID)
		}
		q.idle(t)
		stop()
		q.empty(t)
		for _, one := range s.all() {
			if one.Order%2 == 0 {
				t.Errorf("the entry with order %d is sent", one.Order)
			}
		}
		if n := len(s.all()); n != 10 {
			t.Errorf("%d turns, want 10", n)
		}
	})
}
