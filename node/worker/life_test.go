package worker_test

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestJobIsSentOnceAndDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{})
		q := request("u", "k")
		id := r.submit(q)
		r.settled()

		s := r.get(id)
		if s.State.Phase() != job.Completed || s.State.Tried != 1 || len(s.State.Attempts) != 1 || s.Webhook.State != job.WebhookDelivered {
			t.Errorf("got %+v, %+v", s.State, s.Webhook)
		}
		calls := r.target.of(id)
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		c := calls[0]
		if c.Method != "POST" || c.URL != q.URL || string(c.Body) != "question" || c.Timeout != 2*time.Minute {
			t.Errorf("sent %+v", c.Call)
		}
		for name, want := range map[string]string{
			"X-Aqueduct-Job-Id": id.String(), "X-Aquifer-Job-Id": id.String(), "X-Aqueduct-Attempt": "1", "X-Aqueduct-Node-Id": "node-1",
			"X-Aqueduct-Idempotency-Key-Hash": q.Key().WireHash(), "X-Aqueduct-Total-Jobs": "1", "X-Aqueduct-Queue-Depth": "0",
			"X-Aqueduct-Flow-Rate": "1000.00", "X-Aqueduct-Active-Queues": "1", "X-Aqueduct-Upstream-Backlog": "1",
		} {
			if got := c.header(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if got := r.receiver.got(id); len(got) != 1 || !strings.Contains(got[0], `"body":"says 200"`) {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestRetriesUntilAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = answers(answer(503), broken(job.ConnReset, egress.Reset), answer(429, "Retry-After", "30"), answer(200))
		id := r.submit(request("u", "k"))
		l := r.listen(id, true)
		r.start()
		defer r.stop()
		r.settled()

		calls := r.target.of(id)
		if len(calls) != 4 {
			t.Fatalf("%d calls", len(calls))
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second} {
			gap := calls[i+1].At.Sub(calls[i].At) - 100*time.Millisecond
			if gap < want || gap > want+want/10+10*time.Millisecond {
				t.Errorf("wait after attempt %d: %v, want %v", i+1, gap, want)
			}
		}
		got := r.get(id).State.Attempts
		for i := range got {
			got[i].StartedAt, got[i].RetryWaitMS = 0, got[i].RetryWaitMS/1000
		}
		want := []job.Attempt{
			{Number: 1, DurationMS: 100, Status: 503, RetryWaitMS: 1},
			{Number: 2, DurationMS: 100, Error: job.ConnReset, MaybeExecuted: true, RetryWaitMS: 2},
			{Number: 3, DurationMS: 100, Status: 429, RetryAfter: "30", RetryWaitMS: 30, Asked: true},
			{Number: 4, DurationMS: 100, Status: 200},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		r.names(l, "queued", "dispatching", "retrying", "dispatching", "retrying", "dispatching", "retrying", "dispatching", "completed")
	})
}

func TestRetriesRunOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		r.target.script = answers(answer(503))
		id := r.submit(request("u", "k", retries(2)))
		l := r.listen(id, false)
		r.start()
		defer r.stop()
		r.settled()
		s := r.get(id)
		if n := len(r.target.of(id)); n != 3 || s.State.Phase() != job.Failed || s.State.Reason != "upstream returned 503" {
			t.Errorf("%d calls, %+v", n, s.State)
		}
		want := events.FailedData{
			Attempts: 3, JobID: id.String(), Reason: "upstream returned 503", ResponseStatus: 503, Shown: job.Shown{Body: "says 503"},
		}
		if got := l.last(); got != want {
			t.Errorf("told %+v, want %+v", got, want)
		}
	})
}

// A job that waits for its retry stands at the tail of its lane afterwards, and leaves the slot free.
func TestRetryFreesTheSlotAndJoinsTheTail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: pace.Settings{RPS: 1, MaxConcurrent: 1}})
		first := r.submit(request("u", "first"))
		second, third := r.submit(request("u", "second")), r.submit(request("u", "third"))
		r.target.script = func(ctx context.Context, s sent) dispatch.Outcome {
			if s.ID == first.String() && s.Attempt == "1" {
				return answer(503)
			}
			return pause(ctx, 100*time.Millisecond, answer(200))
		}
		r.start()
		defer r.stop()
		time.Sleep(500 * time.Millisecond)
		if s := r.calls.Stats(); s.Backlog != 3 || s.Waiting != 2 || s.InFlight != 0 {
			t.Errorf("while the first one waits: %+v", s)
		}
		r.settled()
		var order []string
		for _, c := range r.target.all() {
			order = append(order, c.ID)
		}
		want := []string{first.String(), second.String(), third.String(), first.String()}
		if !reflect.DeepEqual(order, want) {
			t.Errorf("sent in the order %v, want %v", order, want)
		}
	})
}

func TestPC05_WaitingForRoomIsNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, 10*time.Second, answer(200)) }
		r.submit(request("u", "long"))
		synctest.Wait()
		id := r.submit(request("u", "short", retries(0)))
		time.Sleep(9 * time.Second)
		if s := r.get(id).State; s.Tried != 0 || s.Phase() != job.Queued {
			t.Errorf("while the slot is taken: %+v", s)
		}
		r.settled()
		if s := r.get(id).State; s.Tried != 1 || s.Phase() != job.Completed {
			t.Errorf("got %+v", s)
		}
	})
}

// A call without a limit is in flight as long as it takes, beyond its deadline, and is never doubled.
func TestTM02_NothingRescuesALongAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{})
		r.target.script = func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, 30*time.Hour, answer(200)) }
		id := r.submit(request("u", "k", timeout(0)))
		for range 29 {
			time.Sleep(time.Hour)
			if s := r.calls.Stats(); s.InFlight != 1 || s.Backlog != 1 {
				t.Fatalf("stats %+v", s)
			}
		}
		r.settled()
		s := r.get(id).State
		if calls := r.target.of(id); len(calls) != 1 || calls[0].Timeout != 0 || s.Phase() != job.Completed || s.Tried != 1 {
			t.Errorf("%d calls, %+v", len(calls), s)
		}
	})
}

// The target is free as soon as it has answered, however long it takes to record that; but nothing is
// sent that is not recorded before.
func TestSlotsWhileTheStoreFails(t *testing.T) {
	for method, want := range map[string]struct{ calls, inFlight int }{"Finish": {3, 0}, "Retry": {3, 0}, "Begin": {0, 1}} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
				if method == "Retry" {
					r.target.script = answers(answer(503), answer(200))
				}
				for _, key := range []string{"1", "2", "3"} {
					r.submit(request("u", key))
				}
				r.disk.SetFault(storetest.Failing(method, 1000, false))
				r.start()
				defer r.stop()
				time.Sleep(time.Minute)
				if n, s := len(r.target.all()), r.calls.Stats(); n != want.calls || s.InFlight != want.inFlight || s.Backlog != 3 {
					t.Errorf("%d calls, %+v", n, s)
				}
				r.disk.SetFault(nil)
				r.settled()
			})
		})
	}
}

// Nor does a job hold its slot that is not sent, or whose turn has broken, while that cannot be recorded.
func TestSlotsOfJobsThatAreNotSent(t *testing.T) {
	for name, edit := range map[string]func(*job.Request){"too late": before(time.UnixMilli(1)), "poison": func(*job.Request) {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, options{settings: pace.Settings{RPS: 1000, MaxConcurrent: 1}})
				first := r.submit(request("u", "first", edit))
				second := r.submit(request("u", "second"))
				r.target.script = func(_ context.Context, s sent) dispatch.Outcome {
					if s.ID == first.String() {
						panic("poison")
					}
					return answer(200)
				}
				r.disk.SetFault(storetest.Failing("Finish", 1_000_000, false))
				r.start()
				defer r.stop()
				time.Sleep(time.Minute)
				if n := len(r.target.of(second)); n != 1 {
					t.Errorf("%d calls of the second job", n)
				}
				r.disk.SetFault(nil)
				r.settled()
			})
		})
	}
}

// A full disk is not filled with lines that say so.
func TestFailingStoreIsNotedOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{})
		for i := range 50 {
			r.submit(request("u", strconv.Itoa(i)))
		}
		r.disk.SetFault(storetest.Failing("Finish", 1_000_000, false))
		r.start()
		defer r.stop()
		time.Sleep(time.Minute)
		if n := r.log.Count("job not recorded"); n < 5 || n > 61 {
			t.Errorf("%d lines in a minute", n)
		}
		r.disk.SetFault(nil)
		r.settled()
	})
}

func TestTimeoutOfAnAttempt(t *testing.T) {
	for ms, want := range map[int64]time.Duration{job.UnsetTimeout: 2 * time.Minute, 0: 0, 1: time.Millisecond, 90_000: 90 * time.Second} {
		bubble(t, func(t *testing.T) {
			r := run(t, options{})
			id := r.submit(request("u", "k", timeout(ms)))
			r.settled()
			if got := r.target.of(id)[0].Timeout; got != want {
				t.Errorf("timeout_ms %d: %v, want %v", ms, got, want)
			}
		})
	}
}

func TestResultIsCutAndDeliveredWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		whole := strings.Repeat("0123456789", 10)
		r := newRig(t, options{})
		r.target.script = func(context.Context, sent) dispatch.Outcome {
			o := answer(200)
			o.Body = []byte(whole)
			return o
		}
		id := r.submit(request("u", "k"))
		l := r.listen(id, false)
		r.start()
		defer r.stop()
		r.settled()
		if got := r.get(id).State.Result; string(got.Body) != whole[:16] || !got.Truncated || got.ContentType != "text/plain" {
			t.Errorf("kept %+v", got)
		}
		if got, _ := l.last().(events.CompletedData); got.Body != whole || got.BodyTruncated {
			t.Errorf("told %+v", got)
		}
		if got := r.receiver.got(id); len(got) != 1 || !strings.Contains(got[0], whole) {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestTenantsDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, options{settings: pace.Settings{RPS: 1, MaxConcurrent: 1}})
		for range 5 {
			r.submit(request("busy", time.Now().String()))
			time.Sleep(time.Millisecond)
		}
		quiet := r.submit(request("quiet", "k"))
		r.start()
		defer r.stop()
		start := time.Now()
		r.settled()
		if waited := r.target.of(quiet)[0].At.Sub(start); waited > 1100*time.Millisecond {
			t.Errorf("the quiet tenant waited %v", waited)
		}
	})
}
