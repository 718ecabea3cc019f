package agenda_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func in(d time.Duration) time.Time { return time.Now().Add(d) }

// asleep lets so much time pass, and what is to happen until then happen.
func asleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRetryComesBackOnTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		j := r.retry(in(10*time.Second), in(time.Hour))
		r.start()
		asleep(10*time.Second - time.Millisecond)
		if r.waits(j) {
			t.Error("it came back too early")
		}
		r.backlog(1, 0)
		asleep(time.Millisecond)
		if !r.waits(j) || r.state(j).Tried != 1 {
			t.Errorf("it did not come back: %+v", r.state(j))
		}
		r.backlog(1, 1)
	})
}

func TestDeliveryComesBackOnTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.owed(in(10 * time.Second))
		r.start()
		asleep(10*time.Second - time.Millisecond)
		if s := r.deliveries.Stats(); s.Waiting != 0 || s.Backlog != 1 {
			t.Errorf("before: %+v", s)
		}
		asleep(time.Millisecond)
		if s := r.deliveries.Stats(); s.Waiting != 1 || s.Backlog != 1 {
			t.Errorf("after: %+v", s)
		}
	})
}

func TestWhatIsDueAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		due, late := r.retry(in(-time.Hour), in(time.Hour)), r.insert(in(-time.Hour))
		r.start()
		synctest.Wait()
		if !r.waits(due) || !r.failed(late) {
			t.Errorf("got %+v, %+v", r.state(due), r.state(late))
		}
		r.backlog(1, 1)
	})
}

func TestWakeBringsTheNextLookForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		synctest.Wait() // it sleeps, as nothing is due
		j := r.retry(in(5*time.Second), in(time.Hour))
		r.agenda.Wake(in(5 * time.Second))
		asleep(5 * time.Second)
		if !r.waits(j) {
			t.Errorf("got %+v", r.state(j))
		}
	})
}

// A time that has passed, or a moment ago would have, is a time to look at once.
func TestWakeForThePast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		synctest.Wait()
		for _, at := range []time.Time{in(0), in(-time.Hour), {}} {
			j := r.retry(in(-time.Hour), in(time.Hour))
			r.agenda.Wake(at)
			synctest.Wait()
			if !r.waits(j) {
				t.Errorf("woken for %v: %+v", at, r.state(j))
			}
		}
	})
}

func TestWakeCostsNothingInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.retry(in(30*time.Second), in(time.Hour))
		r.start()
		synctest.Wait()
		r.looks()
		for range 1000 {
			r.agenda.Wake(in(24 * time.Hour))
			r.agenda.Wake(in(31 * time.Second))
			r.agenda.Wake(time.UnixMilli(math.MaxInt64))
		}
		asleep(29 * time.Second)
		if n := r.looks(); n != 0 {
			t.Errorf("it looked %d times", n)
		}
	})
}

// While the agenda looks, somebody says that something comes due: it is seen, and the agenda does not
// look again for what lies far ahead.
func TestWakeDuringALook(t *testing.T) {
	for name, tt := range map[string]struct {
		at    time.Duration
		looks int
	}{"soon": {10 * time.Millisecond, 2}, "far ahead": {time.Hour, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				var once sync.Once
				r.onDue = func() error {
					once.Do(func() { r.agenda.Wake(in(tt.at)) })
					return nil
				}
				r.start()
				asleep(30 * time.Second)
				if n := r.looks(); n != tt.looks {
					t.Errorf("it looked %d times, want %d", n, tt.looks)
				}
			})
		})
	}
}

// Retries are recorded and told while the agenda runs, from everywhere: none is missed or late.
func TestWakeRaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for n := range 15 {
					time.Sleep(time.Duration(i*n%7) * time.Millisecond)
					mu.Lock()
					at := in(time.Duration(i*n%11) * time.Millisecond)
					j := r.retry(at, in(time.Hour))
					mu.Unlock()
					r.agenda.Wake(at)
					time.Sleep(time.Until(at) + time.Millisecond)
					if s := r.state(j); s.DueAt != 0 {
						t.Errorf("still due %v after its time: %+v", time.Since(time.UnixMilli(s.DueAt)), s)
					}
				}
			})
		}
		all.Wait()
		synctest.Wait()
		r.backlog(150, 150)
	})
}

// A clock that is set forward makes work due of which the agenda's timer knows nothing.
func TestClockJumpsForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		due, late := r.retry(in(3*time.Hour), in(30*time.Hour)), r.insert(in(3*time.Hour))
		r.start()
		asleep(time.Second)
		r.jump(3 * time.Hour)
		asleep(time.Minute)
		if !r.waits(due) || !r.failed(late) {
			t.Errorf("got %+v, %+v", r.state(due), r.state(late))
		}
	})
}

// A clock that is set back puts work off; the agenda does not spin until then.
func TestClockJumpsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		j := r.retry(in(10*time.Second), in(30*time.Hour))
		r.start()
		asleep(time.Second)
		r.jump(-time.Hour)
		r.looks()
		asleep(time.Hour - time.Second)
		if n := r.looks(); r.waits(j) || n < 59 || n > 62 {
			t.Errorf("it looked %d times in an hour: %+v", n, r.state(j))
		}
		asleep(11 * time.Second)
		if !r.waits(j) {
			t.Errorf("got %+v", r.state(j))
		}
	})
}

func TestRunStartsAndStops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for range 3 {
			r.start()
			r.halt()
			r.halt()
		}
		j := r.retry(in(0), in(time.Hour))
		r.start()
		synctest.Wait()
		if !r.waits(j) {
			t.Errorf("got %+v", r.state(j))
		}
	})
}
