package webhook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/webhook"
)

var done = ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("yes")})

func TestDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, answer(202))
		if o, _ := r.turn(t.Context()); o != webhook.Settled {
			t.Errorf("outcome %v", o)
		}
		want := job.Webhook{State: job.WebhookDelivered, Attempts: 1, LastStatus: 202, DeliveredAt: time.Now().UnixMilli()}
		if got := r.store.job.Webhook; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c := r.receiver.calls[0]
		if c.URL != "https://rcv.test/in" || !strings.Contains(string(c.Body), `"body":"yes"`) {
			t.Errorf("sent %s to %s", c.Body, c.URL)
		}
		for name, want := range map[string]string{
			"Content-Type":                "application/json",
			"X-Aqueduct-Total-Jobs":       "1",
			"X-Aqueduct-Delivery-Id":      "webhook:" + idText,
			"X-Aquifer-Delivery-Id":       "webhook:" + idText,
			"X-Aqueduct-Delivery-Attempt": "1",
			"X-Aquifer-Delivery-Attempt":  "1",
		} {
			if got := header(c, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if len(r.released) != 1 || r.released[0].Failed || r.released[0].Status != 202 {
			t.Errorf("released %+v", r.released)
		}
	})
}

func TestWhatAReplyMeans(t *testing.T) {
	for name, c := range map[string]struct {
		reply webhook.Reply
		want  job.WebhookState
		wait  time.Duration // before the next attempt, without jitter
	}{
		"200":                        {answer(200), job.WebhookDelivered, 0},
		"204":                        {answer(204), job.WebhookDelivered, 0},
		"200, then the answer broke": {webhook.Reply{Status: 200, Class: job.ResponseTruncated}, job.WebhookDelivered, 0},
		"301":                        {answer(301, "Location", "https://elsewhere.test/"), job.WebhookRejected, 0},
		"304":                        {answer(304), job.WebhookRejected, 0},
		"307":                        {answer(307), job.WebhookRejected, 0},
		"400":                        {answer(400), job.WebhookRejected, 0},
		"401":                        {answer(401), job.WebhookRejected, 0},
		"410":                        {answer(410), job.WebhookRejected, 0},
		"410 with Retry-After":       {answer(410, "Retry-After", "9"), job.WebhookRejected, 0},
		"404":                        {answer(404), job.WebhookPending, time.Second},
		"404 with Retry-After":       {answer(404, "Retry-After", "9"), job.WebhookPending, 9 * time.Second},
		"408":                        {answer(408), job.WebhookPending, time.Second},
		"425":                        {answer(425), job.WebhookPending, time.Second},
		"429 with Retry-After":       {answer(429, "Retry-After", "70"), job.WebhookPending, 70 * time.Second},
		"RA-03: at once":             {answer(429, "Retry-After", "0"), job.WebhookPending, 0},
		"RA-03: a date that passed":  {answer(503, "Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"), job.WebhookPending, time.Second},
		"429, far too long":          {answer(429, "Retry-After", "9223372037"), job.WebhookPending, time.Hour},
		"429, no number":             {answer(429, "Retry-After", "-5"), job.WebhookPending, time.Second},
		"500":                        {answer(500), job.WebhookPending, time.Second},
		"503 with Retry-After":       {answer(503, "Retry-After", "30"), job.WebhookPending, 30 * time.Second},
		"503, no retry":              {answer(503, "X-Aqueduct-No-Retry", "true"), job.WebhookRejected, 0},
		"599":                        {answer(599), job.WebhookPending, time.Second},
		"refused":                    {webhook.Reply{Class: job.ConnectRefused}, job.WebhookPending, time.Second},
		"timeout":                    {webhook.Reply{Class: job.Timeout}, job.WebhookPending, time.Second},
		"blocked":                    {webhook.Reply{Class: job.BlockedTarget}, job.WebhookFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(done, c.reply)
				o, due := r.turn(t.Context())
				got := r.store.job.Webhook
				if got.State != c.want || got.Attempts != 1 || got.LastStatus != c.reply.Status || got.Order != 0 {
					t.Errorf("got %+v, want state %s", got, c.want)
				}
				if wantClass := c.reply.Class; c.reply.Status == 0 && got.LastError != wantClass {
					t.Errorf("class %q, want %q", got.LastError, wantClass)
				}
				if pending := c.want == job.WebhookPending; (o == webhook.Postponed) != pending || due.IsZero() == pending {
					t.Errorf("outcome %v, due %v", o, due)
				}
				if wait := time.Until(due); c.want == job.WebhookPending && (wait < c.wait || wait > c.wait*11/10+time.Millisecond) {
					t.Errorf("waits %v, want %v", wait, c.wait)
				}
				if s := r.released[0]; s.Failed != (c.want == job.WebhookPending || s.NoRetry) {
					t.Errorf("signal %+v", s)
				}
			})
		})
	}
}

// One receiver that needs long has one open delivery for as long as it takes.
func TestWH01_SlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, answer(200))
		r.receiver.takes = 45 * time.Second
		start := time.Now()
		if o, _ := r.turn(t.Context()); o != webhook.Settled || time.Since(start) != 45*time.Second {
			t.Errorf("outcome %v after %v", o, time.Since(start))
		}
		if len(r.receiver.calls) != 1 || r.receiver.most != 1 || len(r.released) != 1 {
			t.Errorf("%d calls, %d at once, %d releases", len(r.receiver.calls), r.receiver.most, len(r.released))
		}
		if got := r.store.job.Webhook; got.State != job.WebhookDelivered || got.Attempts != 1 {
			t.Errorf("stored %+v", got)
		}
	})
}

// The process dies after the receiver took the result and before that was recorded: the next one
// sends the same bytes under the same id.
func TestWH02_CrashBeforeTheRecord(t *testing.T) {
	for name, held := range map[string]bool{"read from the store": false, "held since the job ended": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut := ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("lo\xc3"), Truncated: true})
				r := newRig(cut, answer(200))
				r.store.payload = []byte("lo\u00f1g")
				r.store.fail = func(method string) error {
					if method == "settle" {
						return errDisk
					}
					return nil
				}
				ctx, crash := context.WithTimeout(t.Context(), time.Second/2)
				defer crash()
				turn := webhook.Turn{Entry: job.Entry{ID: testID, Order: 3}, Release: func(pace.Signal) {}}
				if held {
					turn.Held = &cut
				}
				if o, _ := r.Deliver(ctx, turn); o != webhook.Owed || r.store.job.Webhook != cut.Webhook {
					t.Fatalf("outcome %v, stored %+v", o, r.store.job.Webhook)
				}

				r.store.fail = nil
				if o, _ := r.turn(t.Context()); o != webhook.Settled {
					t.Fatalf("outcome %v", o)
				}
				first, second := r.receiver.calls[0], r.receiver.calls[1]
				if string(first.Body) != string(second.Body) || !strings.Contains(string(first.Body), "lo\u00f1g") {
					t.Errorf("bodies %s and %s", first.Body, second.Body)
				}
				if a, b := header(first, "X-Aqueduct-Delivery-Id"), header(second, "X-Aqueduct-Delivery-Id"); a != b || a == "" {
					t.Errorf("ids %q and %q", a, b)
				}
			})
		})
	}
}

// All but 410 are tried again with waits; 410 stops.
func TestWH03_RetriesThenGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, answer(404), answer(408), answer(425), answer(429, "Retry-After", "100"), answer(410))
		waits := r.run(t)
		got := r.store.job.Webhook
		if got.State != job.WebhookRejected || got.Attempts != 5 || got.LastStatus != 410 || got.DueAt != 0 {
			t.Errorf("stored %+v", got)
		}
		wantWaits(t, waits, time.Second, 2*time.Second, 4*time.Second, 100*time.Second)
		for i, c := range r.receiver.calls {
			if want := []string{"1", "2", "3", "4", "5"}[i]; header(c, "X-Aqueduct-Delivery-Attempt") != want {
				t.Errorf("attempt %d is called %q", i+1, header(c, "X-Aqueduct-Delivery-Attempt"))
			}
		}
	})
}

// A receiver that stays away makes a dead letter, which an operator can owe again.
func TestWH03_ExhaustedAndRedriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, webhook.Reply{Class: job.ConnectRefused})
		wantWaits(t, r.run(t), time.Second, 2*time.Second, 4*time.Second, 8*time.Second)
		if got := r.store.job.Webhook; got.State != job.WebhookFailed || got.Attempts != 5 || got.LastError != job.ConnectRefused {
			t.Errorf("stored %+v", got)
		}
		if r.log.Count("webhook delivery given up") == 0 {
			t.Errorf("the log does not tell: %s", r.log.String())
		}

		r.store.job.Webhook = job.Webhook{State: job.WebhookPending, Order: 9}
		r.receiver.replies = []webhook.Reply{answer(200)}
		r.run(t)
		if got := r.store.job.Webhook; got.State != job.WebhookDelivered || got.LastError != "" {
			t.Errorf("stored %+v", got)
		}
		ids := map[string]bool{}
		for _, c := range r.receiver.calls {
			ids[header(c, "X-Aqueduct-Delivery-Id")] = true
		}
		if len(ids) != 1 {
			t.Errorf("ids %v", ids)
		}
	})
}

func wantWaits(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(g, w time.Duration) bool { return g >= w-time.Millisecond && g <= w*11/10 }) {
		t.Errorf("waits %v, want %v and up to a tenth more", got, want)
	}
}

type senderFunc func(context.Context, webhook.Call) webhook.Reply

func (f senderFunc) Send(ctx context.Context, c webhook.Call) webhook.Reply { return f(ctx, c) }

// Two turns share the load headers they were given; neither writes into the other's.
func TestHeadersAreNotShared(t *testing.T) {
	shared := make([]job.Header, 1, 10)
	shared[0] = job.Header{Name: "X-Aqueduct-Total-Jobs", Value: "1"}
	r := newRig(done, answer(500), answer(200))
	for range 2 {
		r.Deliver(t.Context(), webhook.Turn{Entry: job.Entry{ID: testID}, Headers: shared, Release: func(pace.Signal) {}})
	}
	if got := header(r.receiver.calls[0], "X-Aqueduct-Delivery-Attempt"); got != "1" {
		t.Errorf("the first call's headers now say attempt %s", got)
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(done, answer(500), answer(503), answer(200))
		r.run(t)
		families, err := r.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
		if got["pending"] != 2 || got["delivered"] != 1 || len(got) != 4 {
			t.Errorf("counted %v", got)
		}
	})
}
