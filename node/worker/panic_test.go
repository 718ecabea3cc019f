package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// A turn in which this program breaks fails its job, and its listeners and its webhook learn it.
func TestPanicFailsTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		r.target.script = func(ctx context.Context, s sent) dispatch.Outcome {
			if s.ID == id.String() {
				_ = pause(ctx, 100*time.Millisecond, answer(200))
				panic("poison")
			}
			return answer(200)
		}
		l := r.listen(id, false)
		other := r.submit(request("u", "other"))
		r.start()
		defer r.stop()
		r.settled()
		s := r.get(id)
		last := job.Attempt{Number: 1, StartedAt: s.State.Attempts[0].StartedAt, DurationMS: 100, Error: job.Internal, MaybeExecuted: true}
		if s.State.Phase() != job.Failed || s.State.Reason != job.ReasonPanic || len(s.State.Attempts) != 1 || s.State.Attempts[0] != last {
			t.Errorf("got %+v", s.State)
		}
		r.names(l, "queued", "dispatching", "failed")
		if got := l.last(); got != (events.DroppedData{JobID: id.String(), Reason: job.ReasonPanic}) {
			t.Errorf("told %+v", got)
		}
		want := `{"job_id":"` + id.String() + `","reason":"internal panic","status":"failed"}`
		if got := r.receiver.got(id); len(got) != 1 || got[0] != want {
			t.Errorf("delivered %v, want %s", got, want)
		}
		if s := r.get(other).State; s.Phase() != job.Completed {
			t.Errorf("the other job: %+v", s)
		}
		if log := r.log.String(); !strings.Contains(log, "turn panicked") || !strings.Contains(log, "poison") || !strings.Contains(log, id.String()) {
			t.Errorf("log: %s", log)
		}
	})
}

// breaking are listeners in which one method panics.
type breaking struct {
	*eventsHub
	in string
}

// eventsHub names the hub, so that a test's listeners can embed it.
type eventsHub = events.Hub

func (b breaking) Publish(id job.ID, e events.Event) {
	if b.in == "Publish "+e.Name {
		panic("poison")
	}
	b.eventsHub.Publish(id, e)
}

func (b breaking) Listening(id job.ID) bool {
	if b.in == "Listening" {
		panic("poison")
	}
	return b.eventsHub.Listening(id)
}

// Wherever a turn breaks, its job and its delivery end up recorded once, and nothing is left behind.
func TestPanicAnywhere(t *testing.T) {
	tests := map[string]struct {
		status   job.Status
		attempts int
		calls    int
	}{
		"Publish dispatching": {job.Failed, 1, 0},    // begun, nothing sent
		"Publish retrying":    {job.Completed, 2, 2}, // the retry is recorded, and goes on
		"Wake":                {job.Completed, 2, 2},
		"Listening":           {job.Completed, 2, 2}, // the end is recorded
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := options{listeners: func(h *events.Hub) listeners { return breaking{h, name} }}
				if name == "Wake" {
					o.wake = func(time.Time) { panic("poison") }
				}
				r := newRig(t, o)
				r.target.script = answers(answer(503), answer(200))
				id := r.submit(request("u", "k"))
				r.start()
				defer r.stop()
				r.settled()
				s := r.get(id)
				if s.State.Phase() != tt.status || len(s.State.Attempts) != tt.attempts || s.Webhook.State != job.WebhookDelivered {
					t.Errorf("got %+v, %+v", s.State, s.Webhook)
				}
				if n := len(r.target.of(id)); n != tt.calls {
					t.Errorf("%d calls, want %d", n, tt.calls)
				}
				if n := len(r.receiver.got(id)); n != 1 {
					t.Errorf("%d webhooks", n)
				}
			})
		})
	}
}

// A panic meets a store that fails: the job fails in the end.
func TestPanicWhileTheStoreFails(t *testing.T) {
	for _, landed := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, options{})
			id := r.submit(request("u", "k"))
			r.target.script = func(context.Context, sent) dispatch.Outcome {
				r.disk.SetFault(storetest.Failing("Finish", 3, landed))
				panic(errors.New("poison"))
			}
			r.start()
			defer r.stop()
			r.settled()
			if s := r.get(id); s.State.Reason != job.ReasonPanic || len(r.receiver.got(id)) != 1 {
				t.Errorf("landed %v: got %+v, %d webhooks", landed, s.State, len(r.receiver.got(id)))
			}
		})
	}
}

// A panic while the node stops and the store cannot record it leaves the attempt open, for the next
// process to count.
func TestPanicWhileNothingCanBeRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		r.target.script = func(context.Context, sent) dispatch.Outcome {
			r.disk.SetFault(storetest.Failing("Finish", 1000, false))
			panic("poison")
		}
		r.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.stop()
		if s := r.get(id).State; s.Phase() != job.Queued || s.Tried != 1 || len(s.Attempts) != 0 {
			t.Errorf("got %+v", s)
		}
		if s := r.calls.Stats(); s.Backlog != 1 || s.InFlight != 0 {
			t.Errorf("stats %+v", s)
		}
		if lines := r.log.Count("not recorded"); lines < 3 || lines > 60 {
			t.Errorf("%d lines say that the store failed", lines)
		}
	})
}
