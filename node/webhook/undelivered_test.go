package webhook_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/webhook"
)

func TestNothingToSend(t *testing.T) {
	for name, state := range map[string]job.WebhookState{
		"a stream had it":      job.WebhookSkipped,
		"delivered":            job.WebhookDelivered,
		"the job has no end":   job.WebhookNone,
		"given up":             job.WebhookFailed,
		"refused by the taker": job.WebhookRejected,
	} {
		t.Run(name, func(t *testing.T) {
			s := done
			s.Webhook.State = state
			r := newRig(s)
			if o, _ := r.turn(t.Context()); o != webhook.Settled || len(r.receiver.calls) != 0 || len(r.released) != 1 {
				t.Errorf("outcome %v, %d calls, %d releases", o, len(r.receiver.calls), len(r.released))
			}
		})
	}
}

func TestJobIsGone(t *testing.T) {
	for _, method := range []string{"get", "settle"} {
		t.Run(method, func(t *testing.T) {
			r := newRig(done, answer(200))
			r.store.fail = func(m string) error {
				if m == method {
					return store.ErrNotFound
				}
				return nil
			}
			if o, _ := r.turn(t.Context()); o != webhook.Settled || len(r.released) != 1 {
				t.Errorf("outcome %v, %d releases", o, len(r.released))
			}
		})
	}
}

// When the payload was dropped with a first settlement, the receiver gets what is kept, and is told.
func TestPayloadIsGone(t *testing.T) {
	for name, payload := range map[string][]byte{
		"the store says so":            nil,
		"the store has the part again": []byte("lon"),
		"the store has nothing":        {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("lon"), Truncated: true}), answer(200))
			r.store.payload = payload
			r.turn(t.Context())
			if body := string(r.receiver.calls[0].Body); !strings.Contains(body, `"body":"lon","body_truncated":true`) {
				t.Errorf("sent %s", body)
			}
		})
	}
}

// A store that fails for a while delays the record and keeps the slot; it neither loses the outcome
// nor sends again, and is asked ever less often.
func TestStoreFailsForAWhile(t *testing.T) {
	for _, method := range []string{"get", "payload", "postpone", "settle"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(ended(job.Completed, "", &job.Result{Status: 200, Truncated: true}), answer(200))
				if method == "postpone" {
					r.receiver.replies = []webhook.Reply{answer(500)}
				}
				r.store.payload = []byte("long")
				back := time.Now().Add(10 * time.Minute)
				failures := 0
				r.store.fail = func(m string) error {
					if m == method && time.Now().Before(back) {
						failures++
						if len(r.released) > 0 {
							t.Error("the slot was given back")
						}
						return errDisk
					}
					return nil
				}
				o, _ := r.turn(t.Context())
				if want := map[bool]webhook.Outcome{true: webhook.Postponed, false: webhook.Settled}[method == "postpone"]; o != want {
					t.Errorf("outcome %v, want %v", o, want)
				}
				if failures < 5 || failures > 30 {
					t.Errorf("asked %d times in ten minutes", failures)
				}
				if len(r.receiver.calls) != 1 || len(r.released) != 1 || r.store.job.Webhook.Attempts != 1 {
					t.Errorf("%d calls, %d releases, stored %+v", len(r.receiver.calls), len(r.released), r.store.job.Webhook)
				}
			})
		})
	}
}

// The store says that a postponement failed, and then that there is nothing to postpone: what stands in
// the record tells whether the first try had landed.
func TestPostponementThatFailedButLanded(t *testing.T) {
	due := time.Now().Add(time.Hour).UnixMilli()
	for name, tt := range map[string]struct {
		stored job.Webhook
		want   webhook.Outcome
	}{
		"landed":               {job.Webhook{State: job.WebhookPending, Attempts: 1, DueAt: due}, webhook.Postponed},
		"landed, and requeued": {job.Webhook{State: job.WebhookPending, Attempts: 1, Order: 9}, webhook.Postponed},
		"settled by another":   {job.Webhook{State: job.WebhookSkipped}, webhook.Settled},
		"owed anew":            {job.Webhook{State: job.WebhookPending, Order: 9}, webhook.Settled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(done, answer(503))
				tries := 0
				r.store.fail = func(m string) error {
					if m != "postpone" {
						return nil
					}
					if tries++; tries == 1 {
						r.store.job.Webhook = tt.stored
						return errDisk
					}
					return store.ErrStale
				}
				o, at := r.turn(t.Context())
				if o != tt.want || (o == webhook.Postponed) == at.IsZero() || len(r.receiver.calls) != 1 {
					t.Errorf("outcome %v, due %v, %d calls", o, at, len(r.receiver.calls))
				}
			})
		})
	}
}

func TestProcessStops(t *testing.T) {
	t.Run("in the middle of an attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(done, answer(200))
			r.receiver.takes = time.Minute
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if o, _ := r.turn(ctx); o != webhook.Owed || r.store.job.Webhook != done.Webhook || len(r.released) != 1 {
				t.Errorf("outcome %v, stored %+v", o, r.store.job.Webhook)
			}
		})
	})
	t.Run("with the answer in hand", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := newRig(done)
		r.Sender = senderFunc(func(context.Context, webhook.Call) webhook.Reply {
			stop()
			return answer(200)
		})
		if o, _ := r.turn(ctx); o != webhook.Settled || r.store.job.Webhook.State != job.WebhookDelivered {
			t.Errorf("outcome %v, stored %+v", o, r.store.job.Webhook)
		}
	})
	t.Run("while the store cannot be read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(done, answer(200))
			r.store.fail = func(string) error { return errDisk }
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if o, _ := r.turn(ctx); o != webhook.Owed || len(r.receiver.calls) != 0 || len(r.released) != 1 {
				t.Errorf("outcome %v, %d calls", o, len(r.receiver.calls))
			}
		})
	})
}

// A delivery that breaks this program is a dead letter, not lost.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, answer(200))
		r.Abandon(t.Context(), done.Job.ID, "index out of range")
		if got := r.store.job.Webhook; got.State != job.WebhookFailed || got.Attempts != 1 || got.LastError != job.Internal {
			t.Errorf("got %+v", got)
		}
		if r.log.Count("index out of range") == 0 {
			t.Errorf("the log says %s", &r.log)
		}
	})
}
