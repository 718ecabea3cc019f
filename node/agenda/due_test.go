package agenda_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestManyAreDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const each = 100
		r := newRig(t)
		for range each {
			r.retry(in(0), in(time.Hour))
			r.insert(in(0))
			r.owed(in(0))
		}
		var now, most atomic.Int32
		r.fail = func(ctx context.Context, s job.Snapshot) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Millisecond)
			return r.finish(ctx, s)
		}
		start := time.Now()
		r.start()
		asleep(time.Second - time.Millisecond)
		r.backlog(each, each)
		if s := r.deliveries.Stats(); s.Backlog != each || s.Waiting != each {
			t.Errorf("deliveries %+v", s)
		}
		if n := r.looks(); n > 3*each/256+2 {
			t.Errorf("it looked %d times", n)
		}
		if n := most.Load(); n < 16 || n > 64 {
			t.Errorf("%d at a time, after %v", n, time.Since(start))
		}
	})
}

// What was on disk behind a lane's window when its deadline passed is ended as well.
func TestDeadlinesBehindTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		var late, kept []*job.Job
		for range 20 {
			late = append(late, r.insert(in(time.Minute)))
			kept = append(kept, r.insert(in(time.Hour)))
		}
		r.start()
		asleep(time.Minute)
		for _, j := range late {
			if !r.failed(j) {
				t.Errorf("got %+v", r.state(j))
			}
		}
		for _, j := range kept {
			if r.failed(j) || !r.waits(j) {
				t.Errorf("got %+v", r.state(j))
			}
		}
		r.backlog(20, 20)
	})
}

// A job that is reserved or being sent is not touched; it is looked at again until it can be.
func TestDeadlineOfAJobThatIsNotThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		j := r.job(in(time.Second))
		place := r.calls.Reserve(j.Lane(), j.ID)
		got, err := r.Insert(t.Context(), j, store.Default)
		r.ok(err)
		r.agenda.Wake(in(time.Second))
		r.start()
		asleep(10 * time.Second)
		if n := r.looks(); r.failed(j) || n < 8 || n > 14 {
			t.Errorf("it looked %d times: %+v", n, r.state(j))
		}
		place.Push(got.Entry, nil)
		asleep(time.Second)
		if !r.failed(j) {
			t.Errorf("got %+v", r.state(j))
		}
		r.backlog(0, 0)
	})
}

// Many that cannot be done yet do not keep the others from being done.
func TestStuckDeadlinesBlockNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for range 300 {
			j := r.job(in(0))
			r.calls.Reserve(j.Lane(), j.ID)
			_, err := r.Insert(t.Context(), j, store.Default)
			r.ok(err)
		}
		late, due := r.insert(in(time.Millisecond)), r.retry(in(time.Millisecond), in(time.Hour))
		r.start()
		asleep(time.Second)
		if !r.failed(late) || !r.waits(due) {
			t.Errorf("got %+v, %+v", r.state(late), r.state(due))
		}
		if n := r.looks(); n > 10 {
			t.Errorf("it looked %d times", n)
		}
	})
}

// The retry and the deadline of one job come due together: it joins its lane and is taken out again.
func TestRetryAndDeadlineTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.fail = func(ctx context.Context, s job.Snapshot) error {
			time.Sleep(time.Millisecond) // so that both meet if they can
			return r.finish(ctx, s)
		}
		var all []*job.Job
		for range 20 {
			all = append(all, r.retry(in(time.Second), in(time.Second)))
		}
		r.start()
		asleep(2 * time.Second)
		for _, j := range all {
			if !r.failed(j) {
				t.Errorf("got %+v", r.state(j))
			}
		}
		r.backlog(0, 0)
	})
}

// Each step, failed and failed but landed, is done once in the end.
func TestStepsFail(t *testing.T) {
	for _, method := range []string{"Requeue", "Finish"} {
		for _, landed := range []bool{false, true} {
			for _, n := range []int{1, 5, 300} {
				t.Run(fmt.Sprintf("%s/landed=%v/%d", method, landed, n), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						r := newRig(t)
						r.fail = r.certainly
						var due, late []*job.Job
						for range 5 {
							due, late = append(due, r.retry(in(0), in(time.Hour))), append(late, r.insert(in(0)))
							r.owed(in(0))
						}
						r.disk.SetFault(storetest.Failing(method, n, landed))
						r.start()
						asleep(5 * time.Minute)
						for _, j := range due {
							if !r.waits(j) {
								t.Errorf("retry: %+v", r.state(j))
							}
						}
						for _, j := range late {
							if !r.failed(j) {
								t.Errorf("deadline: %+v", r.state(j))
							}
						}
						r.backlog(5, 5)
						if s := r.deliveries.Stats(); s.Backlog != 5 || s.Waiting != 5 {
							t.Errorf("deliveries %+v", s)
						}
						if lines := r.log.Count("step=do"); lines > 70 || lines == 0 && !landed {
							t.Errorf("%d lines", lines)
						}
					})
				})
			}
		}
	}
}

// Nothing can be done, and more is due than is looked at at once: it is tried each second, not more often.
func TestNothingCanBeDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for range 260 {
			r.retry(in(0), in(time.Hour))
		}
		back := in(4 * time.Second)
		r.disk.SetFault(func(m string) (bool, error) {
			if m == "Requeue" && time.Now().Before(back) {
				return false, storetest.ErrDisk
			}
			return true, nil
		})
		r.start()
		asleep(4*time.Second - time.Millisecond)
		if n := r.looks(); n != 4 || r.log.Count("step=do") != 4 {
			t.Errorf("it looked %d times and said so %d times", n, r.log.Count("step=do"))
		}
		r.backlog(260, 0)
		asleep(time.Second)
		r.backlog(260, 260)
	})
}

// certainly is finish as the real one is: it knows whether a change landed.
func (r *rig) certainly(ctx context.Context, s job.Snapshot) error {
	return store.Certain(ctx, r.Store, s.Job.ID,
		func(ctx context.Context) error { return r.finish(ctx, s) },
		func(now job.Snapshot) bool { return now.State.Phase().Ended() })
}

// One job that cannot be ended does not keep the others from it, and is tried each second.
func TestOneThatAlwaysFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		bad := r.insert(in(0))
		var tries atomic.Int32
		var mended atomic.Bool
		r.fail = func(ctx context.Context, s job.Snapshot) error {
			if s.Job.ID == bad.ID && !mended.Load() {
				tries.Add(1)
				return storetest.ErrDisk
			}
			return r.finish(ctx, s)
		}
		var others []*job.Job
		for range 300 {
			others = append(others, r.insert(in(time.Millisecond)))
		}
		due := r.retry(in(time.Millisecond), in(time.Hour))
		r.start()
		asleep(time.Second)
		if !r.waits(due) || slices.ContainsFunc(others, func(j *job.Job) bool { return !r.failed(j) }) {
			t.Error("it blocks the others")
		}
		r.backlog(2, 2)
		before := tries.Load()
		asleep(time.Minute)
		if n := tries.Load() - before; n < 55 || n > 65 || r.log.Count(storetest.ErrDisk.Error()) > 80 {
			t.Errorf("%d tries in a minute, %d lines", n, r.log.Count(storetest.ErrDisk.Error()))
		}
		mended.Store(true)
		asleep(time.Second)
		r.backlog(1, 1)
	})
}

func TestDueCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		j := r.retry(in(0), in(time.Hour))
		back := in(10 * time.Second)
		r.onDue = func() error {
			if time.Now().Before(back) {
				return storetest.ErrDisk
			}
			return nil
		}
		r.start()
		asleep(10*time.Second - time.Millisecond)
		if n := r.looks(); n != 10 || r.log.Count("step=read") != 10 {
			t.Errorf("it looked %d times and said so %d times", n, r.log.Count("step=read"))
		}
		asleep(time.Millisecond)
		if !r.waits(j) {
			t.Errorf("got %+v", r.state(j))
		}
	})
}

// The store is closed under the agenda, as a stop that met its deadline does: it is no news.
func TestClosedStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.retry(in(5*time.Second), in(time.Hour))
		r.start()
		synctest.Wait()
		r.ok(r.Close())
		asleep(20 * time.Second)
		if log := r.log.String(); log != "" {
			t.Errorf("it says %s", log)
		}
	})
}

func TestSweep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		var all []*job.Job
		for range 20 {
			all = append(all, r.insert(in(0)))
		}
		r.start()
		asleep(time.Hour - time.Second)
		if n := r.removed(); n != 0 {
			t.Errorf("%d are removed too early", n)
		}
		asleep(11 * time.Second)
		if n := r.removed(); n != len(all) {
			t.Errorf("%d are removed", n)
		}
	})
}

// What is more than one call removes is removed without a pause.
func TestSweepOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		left := 2500
		r.onExpire = func(limit int) int {
			n := min(left, limit)
			left -= n
			return n
		}
		r.start()
		asleep(10 * time.Second)
		if left != 0 || r.expires != 3 {
			t.Errorf("%d are left after %d calls", left, r.expires)
		}
	})
}

// The disk is full, nothing can be ended: what has expired is removed all the same.
func TestSweepGoesOnWhileNothingElseDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.insert(in(0))
		stuck := make(chan struct{})
		r.fail = func(context.Context, job.Snapshot) error {
			<-stuck
			return nil
		}
		r.start()
		asleep(time.Minute)
		if r.expires < 5 {
			t.Errorf("swept %d times", r.expires)
		}
		close(stuck)
	})
}

func TestSweepFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.disk.SetFault(storetest.Failing("Expire", 2, false))
		r.start()
		asleep(time.Minute)
		if n := r.log.Count("step=expire"); n != 2 || r.expires != 6 {
			t.Errorf("%d lines, swept %d times", n, r.expires)
		}
	})
}
