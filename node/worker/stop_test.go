package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// forever is a target that does not answer before the attempt is cut.
func forever(ctx context.Context, _ sent) dispatch.Outcome {
	return pause(ctx, 1000*time.Hour, answer(200))
}

// A node that stops cuts the attempt that is open and records it; the next one makes another at once.
func TestStopInTheMiddleOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = forever
		id := r.submit(request("u", "k", retries(1)))
		r.start()
		time.Sleep(time.Minute)
		r.stop()
		s := r.get(id).State
		want := job.Attempt{
			Number: 1, StartedAt: s.Attempts[0].StartedAt, DurationMS: 60_000, Error: job.CrashedWorker, MaybeExecuted: true,
		}
		if s.Phase() != job.Queued || s.Crashes != 0 || len(s.Attempts) != 1 || s.Attempts[0] != want || s.DueAt != time.Now().UnixMilli() {
			t.Errorf("got %+v", s)
		}
		if s := r.calls.Stats(); s.Backlog != 1 || s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("left %+v", s)
		}

		r.target.script = nil
		next := successor(t, r)
		start := time.Now()
		next.start()
		defer next.stop()
		next.settled()
		calls := next.target.of(id)
		if len(calls) != 2 || calls[1].Attempt != "2" || calls[1].At.Sub(start) > 100*time.Millisecond {
			t.Errorf("calls %+v", calls)
		}
		if s := next.get(id); s.State.Phase() != job.Completed || len(next.receiver.got(id)) != 1 {
			t.Errorf("got %+v", s.State)
		}
	})
}

func TestStopInTheMiddleOfTheLastAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = forever
		id := r.submit(request("u", "k", retries(0)))
		r.start()
		time.Sleep(time.Minute)
		r.stop()
		if s := r.get(id); s.State.Phase() != job.Failed || s.State.Reason != "crashed_worker" || s.Webhook.State != job.WebhookPending {
			t.Errorf("got %+v, %+v", s.State, s.Webhook)
		}
		next := successor(t, r)
		next.start()
		defer next.stop()
		next.settled()
		if got := next.receiver.got(id); len(got) != 1 || !strings.Contains(got[0], `"reason":"crashed_worker"`) {
			t.Errorf("delivered %v", got)
		}
	})
}

// What the target answered before the node stopped is recorded, also when the answer comes together
// with the end.
func TestStopKeepsAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome {
			<-ctx.Done()
			return answer(200)
		}
		id := r.submit(request("u", "k"))
		r.start()
		time.Sleep(time.Minute)
		r.stop()
		if s := r.get(id); s.State.Phase() != job.Completed || s.Webhook.State != job.WebhookPending {
			t.Errorf("got %+v, %+v", s.State, s.Webhook)
		}
	})
}

// A node that can record nothing stops all the same, and leaves the attempt open on disk.
func TestStopWithAStoreThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = forever
		id := r.submit(request("u", "k"))
		r.start()
		time.Sleep(time.Minute)
		r.disk.SetFault(func(string) (bool, error) { return false, storetest.ErrDisk })
		start := time.Now()
		r.stop()
		if waited := time.Since(start); waited != 0 {
			t.Errorf("stopping took %v", waited)
		}
		if s := r.get(id).State; s.Tried != 1 || len(s.Attempts) != 0 || s.Phase() != job.Queued {
			t.Errorf("got %+v", s)
		}
		if s := r.calls.Stats(); s.Backlog != 1 {
			t.Errorf("left %+v", s)
		}
		r.disk.SetFault(nil)
		reopened, err := r.disk.Open()
		r.ok(err)
		open, err := reopened.Interrupted(t.Context())
		if err != nil || len(open) != 1 || open[0].Attempt != 1 || open[0].Entry.ID != id {
			t.Errorf("interrupted %+v, %v", open, err)
		}
	})
}

// Steps in which the store fails end when the node stops.
func TestStopWhileAStepWaitsForTheStore(t *testing.T) {
	for _, method := range []string{"Begin", "Retry", "Finish"} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, options{})
				r.target.script = answers(answer(503), answer(200))
				id := r.submit(request("u", "k"))
				r.disk.SetFault(storetest.Failing(method, 1000, false))
				r.start()
				time.Sleep(time.Hour)
				r.stop()
				if s := r.get(id).State; s.Phase() != job.Queued {
					t.Errorf("got %+v", s)
				}
				if s := r.calls.Stats(); s.Backlog != 1 || s.InFlight != 0 {
					t.Errorf("left %+v", s)
				}
				if s := r.deliveries.Stats(); s.Backlog != 0 {
					t.Errorf("deliveries %+v", s)
				}
			})
		})
	}
}

// A store that is closed ends a turn, whether or not its context has ended.
func TestClosedStoreEndsATurn(t *testing.T) {
	for name, script := range map[string]func(context.Context, sent) dispatch.Outcome{
		"finish": answers(answer(200)), "retry": answers(answer(503)), "panic": func(context.Context, sent) dispatch.Outcome { panic("poison") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, options{})
				r.target.script = func(ctx context.Context, s sent) dispatch.Outcome {
					r.ok(r.Close())
					return script(ctx, s)
				}
				r.submit(request("u", "k"))
				r.start()
				defer r.stop()
				time.Sleep(time.Second)
				if s := r.calls.Stats(); s.Backlog != 1 || s.Waiting != 0 || s.InFlight != 0 {
					t.Errorf("stats %+v", s)
				}
				r.ok(r.calls.WaitIdle(t.Context()))
			})
		})
	}
}

// A node that stops begins nothing.
func TestStopBeginsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
		r.target.script = forever
		var ids []job.ID
		for _, key := range []string{"1", "2", "3"} {
			ids = append(ids, r.submit(request("u", key)))
		}
		r.start()
		time.Sleep(time.Minute)
		r.noAttempts() // its turn ends, and frees the slot, before no other may start
		time.Sleep(time.Second)
		r.stop()
		for i, id := range ids {
			if s := r.get(id).State; s.Tried != map[bool]int{true: 1, false: 0}[i == 0] {
				t.Errorf("job %d: %+v", i, s)
			}
		}
		if s := r.calls.Stats(); s.Backlog != 3 {
			t.Errorf("left %+v", s)
		}
	})
}

// A job that is gone or has ended when its turn comes is left alone.
func TestTurnOfAJobThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		id := r.submit(request("u", "k"))
		ghost := job.ID{15: 1}
		lane := r.get(id).Job.Lane()
		r.calls.Reserve(lane, ghost).Push(job.Entry{Lane: lane, Order: 1000, ID: ghost}, nil)
		s := r.get(id)
		r.ok(r.ending.Expire(t.Context(), s, time.Hour))
		r.start()
		defer r.stop()
		r.settled()
		if len(r.target.all()) != 0 {
			t.Errorf("sent %+v", r.target.all())
		}
	})
}
