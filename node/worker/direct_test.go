package worker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// direct hands a job in that is to be tried past the queue, and returns how that went.
func (r *rig) direct(q *job.Request, edit ...func(*intake.Submission)) (job.ID, worker.Answer) {
	r.t.Helper()
	answers := make(chan worker.Answer, 1)
	s := intake.Submission{Request: q, Direct: runner(func(t *queue.Turn) queue.Verdict {
		a, v := r.worker.Direct(r.attempts, t)
		answers <- a
		return v
	})}
	for _, e := range edit {
		e(&s)
	}
	got, err := r.intake.Submit(r.t.Context(), s)
	r.ok(err)
	if !got.Direct {
		r.t.Fatal("there was no turn past the queue")
	}
	if !s.DirectOnly {
		r.ids = append(r.ids, got.ID)
	}
	return got.ID, <-answers
}

// What an answer past the queue means for the job, and for those that follow.
func TestWhatADirectAnswerMeans(t *testing.T) {
	for name, c := range map[string]struct {
		first     dispatch.Outcome
		completed bool
		wait      time.Duration // before the next attempt; 0 with completed: there is none
		breaker   pace.BreakerKind
	}{
		"200":                   {answer(200), true, 0, pace.BreakerClosed},
		"404":                   {answer(404), true, 0, pace.BreakerClosed},
		"500":                   {answer(500), true, 0, pace.BreakerClosed},
		"503":                   {answer(503), false, 0, pace.BreakerReroute},
		"429":                   {answer(429, "Retry-After", "7"), false, 7 * time.Second, pace.BreakerQueue},
		"503 that is no relief": {answer(503, "X-Aqueduct-Reroute-Codes", "500"), true, 0, pace.BreakerClosed},
		"404 that asks":         {answer(404, "X-Aqueduct-Queue-Codes", "4xx"), false, 0, pace.BreakerQueue},
		"200 that asks":         {answer(200, "X-Aqueduct-Queue-Codes", "2xx"), true, 0, pace.BreakerQueue},
		"200 with a queue":      {answer(200, "X-Aqueduct-Queue-Active", "true"), true, 0, pace.BreakerQueue},
		"500 with a queue":      {answer(500, "X-Aqueduct-Queue-Active", "true"), true, 0, pace.BreakerQueue},
		"200 that is full":      {answer(200, "Endpoint-Load-Metrics", "TEXT kv_cache_usage_perc=0.8"), true, 0, pace.BreakerReroute},
		"500 that is full":      {answer(500, "Endpoint-Load-Metrics", "TEXT kv_cache_usage_perc=0.8"), false, 0, pace.BreakerReroute},
		"no answer":             {broken(job.Timeout, egress.Timeout), false, 0, pace.BreakerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, options{target: &target{script: answers(c.first, answer(200))}})
				time.Sleep(time.Millisecond)
				id, a := r.direct(request("u", "k", retries(0)))
				if a.Completed != c.completed || !a.Tried || !a.Recorded || a.Status != c.first.Status || a.Class != c.first.Class {
					t.Errorf("%+v", a)
				}
				v, _, _ := r.calls.View("http://target.test", 0)
				if kind, _ := v.Breaker.Open(time.Now()); kind != c.breaker {
					t.Errorf("the breaker is %s", kind)
				}
				r.settled()
				calls, s := r.target.of(id), r.get(id)
				if s.State.Phase() != job.Completed || len(s.State.Attempts) != len(calls) || (len(calls) == 1) != c.completed {
					t.Fatalf("%d calls, %+v", len(calls), s.State)
				}
				if calls[0].Timeout != directTimeout || calls[0].header("X-Aqueduct-Flow-Rate") != "0.00" || calls[0].Attempt != "1" {
					t.Errorf("sent %+v", calls[0])
				}
				if !c.completed {
					if gap := calls[1].At.Sub(calls[0].At) - 100*time.Millisecond; gap < c.wait || gap > c.wait+20*time.Millisecond || calls[1].Timeout != 2*time.Minute {
						t.Errorf("called again after %v, for %v", gap, calls[1].Timeout)
					}
				}
			})
		})
	}
}

// The job's own time counts if it is less.
func TestADirectAttemptTakesNoLonger(t *testing.T) {
	for ms, want := range map[int64]time.Duration{0: directTimeout, 500: 500 * time.Millisecond, 60_000: directTimeout} {
		bubble(t, func(t *testing.T) {
			r := run(t, options{})
			time.Sleep(time.Millisecond)
			id, _ := r.direct(request("u", "k", timeout(ms)))
			if got := r.target.of(id)[0].Timeout; got != want {
				t.Errorf("with %d ms it may take %v", ms, got)
			}
			r.settled()
		})
	}
}

// A final failure ends the job, and so does a target that wants no other attempt; in time, or not at all.
func TestADirectAttemptThatEndsTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		first  dispatch.Outcome
		reason string
	}{
		"blocked":  {broken(job.BlockedTarget, egress.Blocked), "blocked_target"},
		"no retry": {answer(503, "X-Aqueduct-No-Retry", "true"), "upstream returned 503"},
		"no time":  {answer(503, "Retry-After", "60"), "retry_window_exhausted: upstream returned 503"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, options{target: &target{script: answers(c.first)}})
				time.Sleep(time.Millisecond)
				id, a := r.direct(request("u", "k", before(time.Now().Add(30*time.Second))))
				r.settled()
				if s := r.get(id); a.Completed || s.State.Phase() != job.Failed || len(r.target.of(id)) != 1 || !strings.Contains(s.State.Reason, c.reason) {
					t.Errorf("%+v, %+v", a, s.State)
				}
			})
		})
	}
}

// A failed attempt of a job that is for it alone leaves neither the job nor a delivery, and the key is free.
func TestAVoidJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended, says := 0, answer(503)
		r := run(t, options{
			target: &target{script: func(ctx context.Context, _ sent) dispatch.Outcome { return pause(ctx, time.Second, says) }}, ended: func(job.Snapshot, []byte) { ended++ },
		})
		time.Sleep(time.Millisecond)
		only := func(s *intake.Submission) { s.DirectOnly = true }
		id, a := r.direct(request("u", "k"), only)
		if s, err := r.Get(t.Context(), id); a.Completed || err == nil {
			t.Errorf("%+v left %+v", a, s)
		}
		if _, err := r.Find(t.Context(), request("u", "k").Key().Hash()); err == nil {
			t.Error("the key is taken")
		}
		time.Sleep(time.Hour)
		says = answer(200)
		id, a = r.direct(request("u", "k"), only)
		r.settled()
		if s := r.get(id); !a.Completed || s.Webhook.State != job.WebhookDelivered {
			t.Errorf("%+v, %+v", a, s)
		}
		if n := len(r.receiver.got(id)); n != 1 || ended != 1 {
			t.Errorf("%d deliveries, told of %d ends", n, ended)
		}
	})
}

// Each end that leaves no trace is told of, also of a job whose process has died, or whose time is over.
func TestEachVoidEndIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []string
		calls := 0
		refuse := func(context.Context, sent) dispatch.Outcome { calls++; return answer(503) }
		r := run(t, options{target: &target{script: refuse}, void: func(j *job.Job) { told = append(told, j.Request.KeyName) }})
		time.Sleep(time.Millisecond)
		r.direct(request("u", "refused"), func(s *intake.Submission) { s.DirectOnly = true })
		for name, deadline := range map[string]time.Time{"died": time.Now().Add(time.Hour), "late": time.Now()} {
			j := &job.Job{ID: job.ID{15: name[0]}, Request: *request("u", name), Direct: true, DirectOnly: true, Deadline: deadline.UnixMilli()}
			place := r.calls.Reserve(j.Lane(), j.ID)
			got, err := r.Insert(t.Context(), j, store.Default)
			r.ok(err)
			place.Push(got.Entry, nil)
			r.settled()
		}
		slices.Sort(told)
		if !slices.Equal(told, []string{"died", "late", "refused"}) {
			t.Errorf("told of %v", told)
		}
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// What was taken to read an answer of unknown length is given back down to what it has.
func TestAnAnswerKeepsTheRoomThatItNeeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		short := answer(200)
		short.Body = []byte("short")
		r := run(t, options{target: &target{script: func(ctx context.Context, _ sent) dispatch.Outcome {
			room := dispatch.LeaseOf(ctx)
			if err := room.Take(ctx, 1<<20); err != nil {
				t.Error(err)
			}
			return short
		}}})
		lease := dispatch.NewRoom(0, registry).Lease(r.attempts)
		defer lease.End()
		time.Sleep(time.Millisecond)
		r.attempts = lease
		r.direct(request("u", "k"))
		if n := metrictest.Value(t, registry, "aquifer_large_bodies_bytes"); n != float64(cap(short.Body)) {
			t.Errorf("%v bytes are held", n)
		}
		r.settled()
	})
}

// A stop cuts the attempt; the next process makes another one.
func TestADirectAttemptThatIsCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, options{target: &target{script: func(ctx context.Context, _ sent) dispatch.Outcome {
			return pause(ctx, time.Hour, answer(200))
		}}})
		time.AfterFunc(time.Second, r.noAttempts)
		time.Sleep(time.Millisecond)
		id, a := r.direct(request("u", "k", retries(0)))
		s := r.get(id)
		if a.Completed || s.State.Phase() != job.Queued || s.State.Attempts[0].Error != job.CrashedWorker {
			t.Errorf("%+v, %+v", a, s.State)
		}
	})
}
