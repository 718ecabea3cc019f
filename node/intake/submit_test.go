package intake_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestSubmitStoresAndQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		q := request("u", "k")
		got := r.accepted(q)
		if got.ID.IsZero() || got.ID.NodeTag() != job.TagOf("node-1") || got.Status != job.Queued || got.Duplicate || got.Durability != store.Flush {
			t.Errorf("receipt %+v", got)
		}
		if want := (intake.Load{ActiveQueues: 1, UpstreamBacklog: 1, QueueBacklog: 1, Pressure: 0.5}); got.Load != want {
			t.Errorf("load %+v", got.Load)
		}
		deadline := time.Now().Add(queuedTTL)
		want := &job.Job{ID: got.ID, Request: *q, CreatedAt: time.Now().UnixMilli(), Deadline: deadline.UnixMilli()}
		if s := r.get(got.ID); !reflect.DeepEqual(s.Job, want) || s.State.Phase() != job.Queued {
			t.Errorf("stored %+v, %+v", s.Job, s.State)
		}
		if len(r.woken) != 1 || r.woken[0].UnixMilli() != deadline.UnixMilli() {
			t.Errorf("woken for %v", r.woken)
		}
		r.backlog(1, 0)
	})
}

type runner func(*queue.Turn) queue.Verdict

func (f runner) Run(_ context.Context, t *queue.Turn) queue.Verdict { return f(t) }

// A job that comes in takes its turn without a read of the store.
func TestSubmitHandsTheJobOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var held *job.Snapshot
		turns := make(chan struct{})
		r := newRig(t)
		r.calls = queue.New(queue.Config{
			Line: job.Calls, Backlog: r.Store, Settings: fast, Runner: runner(func(turn *queue.Turn) queue.Verdict {
				held = turn.Held
				close(turns)
				return queue.Ended
			}),
		})
		r.intake.Calls = r.calls
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.calls.Run(ctx) })
		got := r.accepted(request("u", "k"))
		<-turns
		cancel()
		running.Wait()
		if held == nil || held.Job.ID != got.ID {
			t.Errorf("the turn has %+v", held)
		}
	})
}

func TestSubmitDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, at := range []int64{1, time.Now().UnixMilli(), time.Now().Add(1000 * time.Hour).UnixMilli()} {
			got := r.accepted(request("u", time.UnixMilli(at).String(), func(q *job.Request) { q.ExecuteBefore = at }))
			if s := r.get(got.ID); s.Job.Deadline != at {
				t.Errorf("deadline %d, want %d", s.Job.Deadline, at)
			}
			if last := r.woken[len(r.woken)-1]; last.UnixMilli() != at {
				t.Errorf("woken for %v", last)
			}
		}
	})
}

func TestSubmitDurability(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for asked, want := range map[store.Durability]store.Durability{
			store.Default: store.Flush, store.Flush: store.Flush, store.Sync: store.Sync,
		} {
			got, err := r.intake.Submit(t.Context(), intake.Submission{Request: request("u", asked.String()), Durability: asked})
			if err != nil || got.Durability != want {
				t.Errorf("%v: got %v, %v", asked, got.Durability, err)
			}
		}
	})
}

// All callers find the key free before any of them stores its job.
func TestID01_ParallelSubmits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const callers = 50
		r := newRig(t)
		var all sync.WaitGroup
		all.Add(callers)
		r.intake.Store = hooked{Store: r.Store, find: func() { all.Done(); all.Wait() }}
		receipts := make([]intake.Receipt, callers)
		var done sync.WaitGroup
		for i := range receipts {
			done.Go(func() {
				var err error
				if receipts[i], err = r.submit(request("u", "k")); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		fresh := 0
		for _, got := range receipts {
			if !got.Duplicate {
				fresh++
			}
			if got.ID != receipts[0].ID || got.Status != job.Queued || got.PayloadMismatch {
				t.Errorf("receipt %+v", got)
			}
		}
		if fresh != 1 {
			t.Errorf("%d new jobs", fresh)
		}
		r.backlog(1, 0)
	})
}

func TestID02_SameKeyOtherPayload(t *testing.T) {
	other := map[string]*job.Request{
		"other body":    request("u", "k", body(`{"n":2}`)),
		"other spacing": request("u", "k", body(`{"n": 1}`)),
		"other url":     request("u", "k", func(q *job.Request) { q.URL += "/x" }),
		"other method":  request("u", "k", func(q *job.Request) { q.Method = "PUT" }),
		"other header":  request("u", "k", func(q *job.Request) { q.Headers[0].Value = "text/html" }),
	}
	same := map[string]*job.Request{
		"the same":      request("u", "k"),
		"other retries": request("u", "k", func(q *job.Request) { q.MaxRetries = 0 }),
		"other case":    request("u", "k", func(q *job.Request) { q.Headers[0].Name = "ACCEPT" }),
		"other webhook": request("u", "k", func(q *job.Request) { q.WebhookURL += "/x" }),
	}
	for _, strict := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, func(c *intake.Config) { c.Strict = strict })
			first := r.accepted(request("u", "k"))
			before := r.get(first.ID)
			for name, q := range other {
				got, err := r.submit(q)
				switch {
				case !strict && (err != nil || !got.Duplicate || got.ID != first.ID || !got.PayloadMismatch):
					t.Errorf("%s: %+v, %v", name, got, err)
				case strict && !strings.Contains(r.fails(err, fault.Mismatch).Detail, `"k"`):
					t.Errorf("%s: %v does not name the key", name, err)
				}
			}
			for name, q := range same {
				if got := r.accepted(q); !got.Duplicate || got.ID != first.ID || got.PayloadMismatch {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if !reflect.DeepEqual(r.get(first.ID), before) {
				t.Errorf("the first job was touched: %+v", r.get(first.ID))
			}
			r.backlog(1, 0)
		})
	}
}

// The mismatch counts as well when both come at a time.
func TestID02_ParallelSubmitsOfOtherPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(c *intake.Config) { c.Strict = true })
		var all, done sync.WaitGroup
		all.Add(2)
		r.intake.Store = hooked{Store: r.Store, find: func() { all.Done(); all.Wait() }}
		errs := make([]error, 2)
		for i := range errs {
			done.Go(func() { _, errs[i] = r.submit(request("u", "k", body(string(rune('a'+i))))) })
		}
		done.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !fault.Is(errors.Join(errs...), fault.Mismatch) {
			t.Errorf("got %v", errs)
		}
		r.backlog(1, 0)
	})
}

func TestIdentityIsExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		shared := func(q *job.Request) { q.Scope = job.ScopeShared }
		for _, q := range []*job.Request{
			request("a", "b:c"), request("a:b", "c"), request("", "a:b:c"), request("a", "c"), request("a", "b:c", shared),
		} {
			if got := r.accepted(q); got.Duplicate {
				t.Errorf("%q, %q is a duplicate", q.UserID, q.KeyName)
			}
		}
		if got := r.accepted(request("another", "b:c", shared)); !got.Duplicate {
			t.Error("a shared key of another user is no duplicate")
		}
	})
}

func TestDuplicateTellsTheRealStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, status := range []job.Status{job.Queued, job.Completed, job.Failed} {
			first := r.accepted(request("u", string(status)))
			if status.Ended() {
				r.end(first.ID, status, true)
			}
			got := r.accepted(request("u", string(status)))
			if want := (intake.Receipt{ID: first.ID, Status: status, Duplicate: true}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	})
}

// A key is free again when its job has expired, not before.
func TestKeyOfAnExpiredJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.accepted(request("u", "k"))
		time.Sleep(2 * queuedTTL) // unfinished jobs do not expire
		if got := r.accepted(request("u", "k")); got.ID != first.ID {
			t.Errorf("got %+v", got)
		}
		r.end(first.ID, job.Completed, true)
		time.Sleep(keep - time.Millisecond)
		if got := r.accepted(request("u", "k")); got.ID != first.ID {
			t.Errorf("got %+v", got)
		}
		time.Sleep(time.Millisecond)
		if got := r.accepted(request("u", "k")); got.ID == first.ID || got.Duplicate {
			t.Errorf("got %+v", got)
		}
		r.backlog(1, 0)
	})
}

func TestDuplicateThatExpiresThisMoment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.accepted(request("u", "k"))
		r.end(first.ID, job.Completed, true)
		r.intake.Store = hooked{Store: r.Store, find: func() { time.Sleep(keep) }}
		_, err := r.submit(request("u", "k"))
		if f := r.fails(err, fault.Unavailable); f.RetryAfter != time.Second {
			t.Errorf("retry after %v", f.RetryAfter)
		}
		if got := r.accepted(request("u", "k")); got.Duplicate {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRefusalLeavesNoTrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		first := r.accepted(request("u", "known"))
		r.end(first.ID, job.Completed, true)
		r.refusal = &fault.Error{Kind: fault.Overloaded, Limit: &fault.Limit{Reason: "memory", Limit: 1, Current: 2}}

		_, err := r.submit(request("u", "k"))
		if f := r.fails(err, fault.Overloaded); f.Limit.Reason != "memory" {
			t.Errorf("got %+v", f)
		}
		_, err = r.intake.Redrive(t.Context(), first.ID)
		r.fails(err, fault.Overloaded)
		if got := r.accepted(request("u", "known")); !got.Duplicate || got.ID != first.ID {
			t.Errorf("a duplicate under pressure: %+v", got)
		}
		if _, err := r.Find(t.Context(), request("u", "k").Key().Hash()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the refused key: %v", err)
		}
		r.backlog(0, 0)
		if len(r.woken) != 1 {
			t.Errorf("woken for %v", r.woken)
		}

		r.refusal = nil
		if got := r.accepted(request("u", "k")); got.Duplicate {
			t.Errorf("got %+v", got)
		}
		r.backlog(1, 0)
	})
}

func TestDraining(t *testing.T) {
	bubble(t, func(t *testing.T) {
		draining := false
		r := newRig(t, func(c *intake.Config) { c.Draining = func() bool { return draining } })
		first := r.accepted(request("u", "known"))
		r.end(first.ID, job.Completed, true)
		draining = true
		_, err := r.submit(request("u", "known")) // also duplicates
		r.fails(err, fault.Draining)
		_, err = r.submit(request("u", "k"))
		r.fails(err, fault.Draining)
		_, err = r.intake.Redrive(t.Context(), first.ID)
		r.fails(err, fault.Draining)
		r.fails(r.intake.Redeliver(t.Context(), first.ID), fault.Draining)
		r.backlog(0, 0)
	})
}

func TestSubmitWithoutRandomness(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, func(c *intake.Config) { c.IDs.Rand = iotest.ErrReader(storetest.ErrDisk) })
		_, err := r.submit(request("u", "k"))
		if f := r.fails(err, fault.Internal); f.Detail != "" || !errors.Is(err, storetest.ErrDisk) {
			t.Errorf("got %+v", f)
		}
		r.backlog(0, 0)
	})
}
