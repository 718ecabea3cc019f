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
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

func TestStreamThatConfirmsSparesTheWebhook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		l := r.listen(id, true)
		r.start()
		defer r.stop()
		start := time.Now()
		r.settled()
		r.names(l, "queued", "dispatching", "completed")
		if s := r.get(id); s.Webhook.State != job.WebhookSkipped || s.State.Phase() != job.Completed {
			t.Errorf("got %+v", s.Webhook)
		}
		if got := r.receiver.got(id); len(got) != 0 {
			t.Errorf("delivered %v", got)
		}
		if waited := time.Since(start); waited > time.Minute {
			t.Errorf("took %v", waited)
		}
	})
}

// The client is frozen: its stream takes the end and never says so.
func TestWH08_FrozenStreamGetsItsWebhook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		l := r.listen(id, false)
		r.start()
		defer r.stop()
		time.Sleep(100*time.Millisecond + streamWait - time.Millisecond)
		if got := r.receiver.got(id); len(got) != 0 || r.deliveries.Stats().Backlog != 1 {
			t.Errorf("while a confirmation is awaited: delivered %v, %+v", got, r.deliveries.Stats())
		}
		r.settled()
		r.names(l, "queued", "dispatching", "completed")
		if got := r.receiver.got(id); len(got) != 1 || r.get(id).Webhook.State != job.WebhookDelivered {
			t.Errorf("delivered %v, %+v", got, r.get(id).Webhook)
		}
	})
}

func TestStreamThatLeavesGetsItsWebhookAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		live := r.hub.Subscribe(id)
		r.start()
		defer r.stop()
		time.Sleep(150 * time.Millisecond)
		live.Close()
		time.Sleep(100 * time.Millisecond)
		if got := r.receiver.got(id); len(got) != 1 {
			t.Errorf("delivered %v", got)
		}
		r.settled()
	})
}

// Any one of several streams will do.
func TestOneConfirmationIsEnough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		r.listen(id, false)
		r.listen(id, true)
		r.listen(id, false)
		r.start()
		defer r.stop()
		r.settled()
		if got := r.receiver.got(id); len(got) != 0 || r.get(id).Webhook.State != job.WebhookSkipped {
			t.Errorf("delivered %v, %+v", got, r.get(id).Webhook)
		}
	})
}

func TestAwaitedConfirmationHoldsNoSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
		first := r.submit(request("u", "first"))
		second := r.submit(request("u", "second"))
		r.listen(first, false)
		r.start()
		defer r.stop()
		time.Sleep(150 * time.Millisecond)
		if n := len(r.target.of(second)); n != 1 {
			t.Errorf("%d calls of the second job while the first awaits its confirmation", n)
		}
		r.settled()
	})
}

// A store that cannot settle the skipped delivery is asked until it can: the webhook is not made.
func TestSkipIsRecordedInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		r.listen(id, true)
		r.disk.SetFault(failing("Settle", 4, false))
		r.start()
		defer r.stop()
		r.settled()
		if got := r.receiver.got(id); len(got) != 0 || r.get(id).Webhook.State != job.WebhookSkipped {
			t.Errorf("delivered %v, %+v", got, r.get(id).Webhook)
		}
	})
}

// A node that stops meanwhile leaves the delivery owed.
func TestStopWhileAConfirmationIsAwaited(t *testing.T) {
	for name, confirms := range map[string]bool{"no confirmation": false, "confirmed, not recorded": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, options{})
				id := r.submit(request("u", "k"))
				r.listen(id, confirms)
				if confirms {
					r.disk.SetFault(failing("Settle", 1000, false))
				}
				r.start()
				time.Sleep(time.Second)
				start := time.Now()
				r.stop()
				if waited := time.Since(start); waited != 0 {
					t.Errorf("stopping took %v", waited)
				}
				if s := r.get(id); s.Webhook.State != job.WebhookPending || s.State.Phase() != job.Completed {
					t.Errorf("got %+v", s.Webhook)
				}
				if s := r.deliveries.Stats(); s.Backlog != 1 {
					t.Errorf("deliveries %+v", s)
				}
				next := successor(t, r)
				next.start()
				defer next.stop()
				next.settled()
				if got := next.receiver.got(id); len(got) != 1 {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

// successor is the next process: a new node on the same disk, with the same target and receiver.
func successor(t *testing.T, r *rig) *rig {
	t.Helper()
	r.disk.SetFault(nil)
	next := newRig(t, options{disk: r.disk, target: r.target, receiver: r.receiver})
	next.ids = r.ids
	next.recover()
	return next
}

func TestID04_RedriveRunsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{})
		first := r.submit(request("u", "k"))
		r.settled()
		var runs []job.ID
		for range 2 {
			got, err := r.intake.Redrive(t.Context(), first)
			r.ok(err)
			if got.RedriveOf != first || got.Duplicate || got.Status != job.Queued || got.ID == first {
				t.Errorf("receipt %+v", got)
			}
			runs = append(runs, got.ID)
		}
		r.ids = append(r.ids, runs...)
		r.settled()
		for _, id := range runs {
			if s := r.get(id); s.Job.RedriveOf != first || s.State.Phase() != job.Completed {
				t.Errorf("got %+v, %+v", s.Job, s.State)
			}
			if calls, hooks := len(r.target.of(id)), len(r.receiver.got(id)); calls != 1 || hooks != 1 {
				t.Errorf("%d calls and %d webhooks of a rerun", calls, hooks)
			}
		}
		if got := r.receiver.deliveryIDs(); len(got) != 3 {
			t.Errorf("delivery ids %v", got)
		}
		got, err := r.intake.Submit(t.Context(), intake.Submission{Request: request("u", "k")})
		if err != nil || !got.Duplicate || got.ID != first || got.Status != job.Completed {
			t.Errorf("the key belongs to %+v, %v", got, err)
		}
	})
}

func TestRedeliverSendsTheSameAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{})
		r.receiver.script = func(n int, _ string) int { return []int{410, 500, 200}[min(n, 3)-1] }
		id := r.submit(request("u", "k"))
		r.settled()
		if s := r.get(id).Webhook; s.State != job.WebhookRejected {
			t.Fatalf("got %+v", s)
		}
		r.ok(r.intake.Redeliver(t.Context(), id))
		r.settled()
		if s := r.get(id).Webhook; s.State != job.WebhookDelivered {
			t.Errorf("got %+v", s)
		}
		got := r.receiver.got(id)
		if len(got) != 3 || got[0] != got[1] || got[1] != got[2] {
			t.Errorf("delivered %v", got)
		}
	})
}

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
				r.disk.SetFault(failing("Finish", 3, landed))
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
			r.disk.SetFault(failing("Finish", 1000, false))
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
		if lines := strings.Count(r.log.String(), "not recorded"); lines < 3 || lines > 60 {
			t.Errorf("%d lines say that the store failed", lines)
		}
	})
}
