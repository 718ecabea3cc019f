package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// dropped checks that a job failed on its deadline at the time, unsent, and that stream and webhook
// learned it.
func (r *rig) dropped(id job.ID, at time.Time, attempts int) {
	r.t.Helper()
	s := r.get(id)
	if s.State.Phase() != job.Failed || s.State.Reason != "execution_deadline_exceeded" || len(s.State.Attempts) != attempts || s.State.Result != nil {
		r.t.Errorf("got %+v", s.State)
	}
	if ended := time.UnixMilli(s.State.EndedAt); ended.Before(at.Truncate(time.Millisecond)) || ended.After(at.Add(time.Second)) {
		r.t.Errorf("ended %v after its deadline", ended.Sub(at))
	}
	if n := len(r.target.of(id)); n != attempts {
		r.t.Errorf("sent %d times, want %d", n, attempts)
	}
	want := `{"job_id":"` + id.String() + `","reason":"execution_deadline_exceeded","status":"failed"}`
	if got := r.receiver.got(id); len(got) != 1 || got[0] != want {
		r.t.Errorf("delivered %v, want %s", got, want)
	}
}

// told checks that a stream was told of the deadline, and that its confirmation spared no webhook.
func (r *rig) told(l *listener, id job.ID) {
	r.t.Helper()
	if got := l.last(); got != (events.DroppedData{JobID: id.String(), Reason: "execution_deadline_exceeded"}) {
		r.t.Errorf("told %+v", got)
	}
}

func slow() pace.Settings { return pace.Settings{RPS: 1, MaxConcurrent: 1} }

func TestDeadlineWhileWaitingInTheLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: slow()})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Hour, answer(200)) }
		r.submit(request("u", "long"))
		at := time.Now().Add(10 * time.Second)
		id := r.submit(request("u", "k", before(at)))
		l := r.listen(id, true)
		r.start()
		defer r.stop()
		r.settled()
		r.dropped(id, at, 0)
		r.told(l, id)
		r.names(l, "queued", "failed")
	})
}

func TestDeadlineOnDiskBehindTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: slow(), window: 2})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Minute, answer(200)) }
		at := time.Now().Add(30 * time.Second)
		var kept, late []job.ID
		for i := range 20 {
			id := r.submit(request("u", fmt.Sprint(i), func(q *job.Request) {
				if i >= 3 && i%2 == 1 {
					q.ExecuteBefore = at.UnixMilli()
				}
			}))
			if r.get(id).Job.Request.ExecuteBefore != 0 {
				late = append(late, id)
			} else {
				kept = append(kept, id)
			}
		}
		l := r.listen(late[len(late)-1], true)
		r.start()
		defer r.stop()
		time.Sleep(31 * time.Second)
		if s := r.calls.Stats(); s.Backlog != len(kept) {
			t.Errorf("after the deadline %+v, want %d jobs", s, len(kept))
		}
		r.settled()
		for _, id := range late {
			r.dropped(id, at, 0)
		}
		r.told(l, late[len(late)-1])
		for _, id := range kept {
			if s := r.get(id).State; s.Phase() != job.Completed || len(r.target.of(id)) != 1 {
				t.Errorf("got %+v", s)
			}
		}
	})
}

// The deadline of a waiting retry cannot pass unseen: a retry that would be too late is none. So this
// deadline passes because the target's lane is full when the retry is due.
func TestDeadlineWhileWaitingForARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
		at := time.Now().Add(10 * time.Second)
		id := r.submit(request("u", "k", before(at)))
		r.submit(request("u", "long"))
		r.target.script = func(ctx context.Context, s sent) dispatch.Outcome {
			if s.ID == id.String() {
				return answer(503, "Retry-After", "9")
			}
			return pause(ctx, time.Hour, answer(200))
		}
		r.start()
		defer r.stop()
		r.settled()
		r.dropped(id, at, 1)
	})
}

// A job that stands among what is due when its deadline passes: a clock that jumps makes one.
func TestDeadlineAmongWhatIsDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		at := time.Now().Add(2 * time.Second)
		id := r.submit(request("u", "k", before(at)))
		r.target.script = func(context.Context, sent) dispatch.Outcome { return answer(503) }
		// Requeue fails until the deadline has passed.
		r.disk.SetFault(func(m string) (bool, error) {
			if m == "Requeue" && time.Now().Before(at) {
				return false, storetest.ErrDisk
			}
			return true, nil
		})
		r.start()
		defer r.stop()
		time.Sleep(1900 * time.Millisecond)
		if s := r.get(id).State; s.DueAt == 0 {
			t.Errorf("got %+v", s)
		}
		r.settled()
		r.dropped(id, at, 1)
	})
}

func TestDeadlineInFlight(t *testing.T) {
	tests := map[string]struct {
		out    dispatch.Outcome
		status job.Status
		reason string
	}{
		"answered": {answer(200), job.Completed, ""},
		"failed":   {answer(503), job.Failed, "retry_window_exhausted: upstream returned 503"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, options{})
				r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Hour, tt.out) }
				id := r.submit(request("u", "k", before(time.Now().Add(time.Second))))
				r.settled()
				s := r.get(id).State
				if s.Phase() != tt.status || s.Reason != tt.reason || len(r.target.of(id)) != 1 || len(r.receiver.got(id)) != 1 {
					t.Errorf("got %+v, %d calls", s, len(r.target.of(id)))
				}
			})
		})
	}
}

// A job may be too late when it comes: it is accepted, fails at once and is never sent.
func TestDeadlineBeforeTheFirstMoment(t *testing.T) {
	for name, running := range map[string]bool{"its turn finds it": true, "the agenda finds it": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				settings := pace.Settings{RPS: 1000, MaxConcurrent: 10}
				if !running {
					settings.MaxConcurrent = 1
				}
				r := run(t, options{settings: settings})
				r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Hour, answer(200)) }
				r.submit(request("u", "long"))
				synctest.Wait()
				id := r.submit(request("u", "k", before(time.UnixMilli(1))))
				time.Sleep(time.Second)
				r.dropped(id, time.Now().Add(-time.Second), 0)
				r.settled()
			})
		})
	}
}

func TestDeadlineOfAJobWithoutOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{settings: slow()})
		start := time.Now()
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, 30*time.Hour, answer(200)) }
		r.submit(request("u", "long"))
		synctest.Wait()
		id := r.submit(request("u", "k"))
		time.Sleep(24*time.Hour + time.Second)
		r.dropped(id, start.Add(24*time.Hour), 0)
		r.settled()
	})
}

// Many jobs, one deadline.
func TestDeadlineOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{settings: slow()})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Hour, answer(200)) }
		r.submit(request("u", "long"))
		synctest.Wait()
		at := time.Now().Add(10 * time.Second)
		for i := range 150 {
			r.submit(request("u", fmt.Sprint(i), before(at)))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := r.calls.Stats(); s.Backlog != 1 {
			t.Errorf("at the deadline: %+v", s)
		}
		r.settled()
	})
}
