package worker_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
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

// held counts who holds jobs.
type held struct{ n atomic.Int32 }

func (h *held) Hold(job.ID) { h.n.Add(1) }
func (h *held) Free(job.ID) { h.n.Add(-1) }

// A job is held from before its end is recorded until it is known whether the delivery is needed.
func TestAJobThatEndsIsHeld(t *testing.T) {
	for name, confirms := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var h held
				r := newRig(t, options{holds: &h})
				id := r.submit(request("u", "k"))
				r.listen(id, confirms)
				free := 0
				r.disk.SetFault(func(method string) (bool, error) {
					if h.n.Load() == 0 && (method == "Finish" || confirms && method == "Settle") {
						free++
					}
					return true, nil
				})
				r.start()
				defer r.stop()
				time.Sleep(100*time.Millisecond + streamWait/2)
				if n := h.n.Load(); confirms != (n == 0) {
					t.Errorf("held %d times while a confirmation is awaited", n)
				}
				r.settled()
				if n := h.n.Load(); n != 0 || free != 0 {
					t.Errorf("held %d times in the end, and not at %d steps", n, free)
				}
			})
		})
	}
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
		r.disk.SetFault(storetest.Failing("Settle", 4, false))
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
					r.disk.SetFault(storetest.Failing("Settle", 1000, false))
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
