package storetest

import (
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func transitionTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Transitions/whole life":          wholeLife,
		"Begin/stale":                     beginStale,
		"Retry/stale":                     retryStale,
		"Finish/stale":                    finishStale,
		"Finish/while it waits":           finishWaiting,
		"Finish/while it waits for retry": finishDue,
		"Finish/goes by what is stored":   finishMoved,
		"Record/late answer":              recordLate,
		"Record/interrupted":              recordInterrupted,
		"Record/stale":                    recordStale,
		"ST01_StatesOnlyGoForward":        onlyForward,
		"Get/never goes back":             readForward,
	}
}

func wholeLife(h *harness) {
	w := h.add()
	h.begin(w)
	got := h.get(w.ID)
	h.equal(got.State.Tried, 1)
	h.equal(got.State.Order, w.entry.Order)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID{w.ID})

	h.retry(w, time.Minute)
	h.equal(h.get(w.ID).State, w.state)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID(nil))

	before := w.entry.Order
	h.requeue(w)
	if w.entry.Order <= before {
		h.t.Fatalf("order %d after requeue, was %d", w.entry.Order, before)
	}
	h.equal(h.get(w.ID).State, w.state)

	h.begin(w)
	e := h.finish(w)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID(nil))
	h.equal(h.lane(job.Deliveries, w.WebhookLane()), []job.ID{w.ID})
	h.equal(h.get(w.ID), job.Snapshot{
		Job: w.Job, State: w.state, Webhook: job.Webhook{State: job.WebhookPending, Order: e.Order},
	})
	h.equal(len(w.state.Attempts), 1)
	h.settle(w.ID)
	h.equal(h.get(w.ID), job.Snapshot{Job: w.Job, State: w.state, Webhook: delivered()})
}

// readForward reads jobs while they end: what a reader has seen of a job happens once.
func readForward(h *harness) {
	for range 100 {
		w := h.add()
		h.begin(w)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for ended := false; !ended; {
					got, err := h.s.Get(h.ctx, w.ID)
					if err != nil || got.State.Tried != 1 {
						h.t.Errorf("a job that is in its first attempt was read with %d of them, error %v", got.State.Tried, err)
						return
					}
					ended = got.State.Phase().Ended()
				}
			})
		}
		h.finish(w)
		readers.Wait()
	}
}

func beginStale(h *harness) {
	w := h.add()
	elsewhere := w.entry
	elsewhere.Order++
	h.is(h.s.Begin(h.ctx, elsewhere, job.State{Tried: 1}, time.Now()), store.ErrStale)
	h.begin(w)
	h.is(h.s.Begin(h.ctx, w.entry, job.State{Tried: 2}, time.Now()), store.ErrStale)
	h.retry(w, time.Hour)
	h.is(h.s.Begin(h.ctx, w.entry, job.State{Tried: 2}, time.Now()), store.ErrStale)
	h.requeue(w)
	h.begin(w)
	h.finish(w)
	h.is(h.s.Begin(h.ctx, w.entry, job.State{Tried: 3}, time.Now()), store.ErrStale)
}

func retryStale(h *harness) {
	w := h.add()
	h.is(h.s.Retry(h.ctx, w.entry, job.State{Tried: 0, DueAt: 1}), store.ErrStale)
	h.is(h.s.Retry(h.ctx, w.entry, job.State{Tried: 1, DueAt: 1}), store.ErrStale)
	h.begin(w)
	h.is(h.s.Retry(h.ctx, w.entry, job.State{Tried: 2, DueAt: 1}), store.ErrStale)
	h.is(h.s.Retry(h.ctx, w.entry, job.State{Tried: 0, DueAt: 1}), store.ErrStale)
	h.retry(w, time.Hour)
	h.is(h.s.Retry(h.ctx, w.entry, w.state), store.ErrStale)
	h.equal(h.get(w.ID).State, w.state)
}

func finishStale(h *harness) {
	_, err := h.s.Finish(h.ctx, (&work{Job: h.job()}).ending())
	h.is(err, store.ErrNotFound)

	w := h.add()
	h.begin(w)
	other := *w
	other.state.Tried = 2
	_, err = h.s.Finish(h.ctx, other.ending())
	h.is(err, store.ErrStale)
	other.state.Tried = 0
	_, err = h.s.Finish(h.ctx, other.ending())
	h.is(err, store.ErrStale)
	f := w.ending()
	h.finish(w)
	_, err = h.s.Finish(h.ctx, f)
	h.is(err, store.ErrStale)
	h.settle(w.ID)
	_, err = h.s.Finish(h.ctx, f)
	h.is(err, store.ErrStale)
}

func finishWaiting(h *harness) {
	w := h.add()
	h.finish(w)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID(nil))
	h.equal(h.get(w.ID).State, w.state)
	h.is(h.s.Begin(h.ctx, w.entry, job.State{Tried: 1}, time.Now()), store.ErrStale)
}

func finishDue(h *harness) {
	w := h.add()
	h.begin(w)
	h.retry(w, time.Minute)
	h.finish(w)
	_, err := h.s.Requeue(h.ctx, w.due)
	h.is(err, store.ErrStale)
	h.equal(h.get(w.ID).State, w.state)
}

// finishMoved ends a job that was moved after the caller had read where it is.
func finishMoved(h *harness) {
	w := h.add()
	h.begin(w)
	h.retry(w, time.Minute)
	f := w.ending()
	h.requeue(w)
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID(nil))
}

func recordLate(h *harness) {
	late := job.Attempt{Number: 1, Status: 200}
	w := h.add()
	h.begin(w)
	h.retry(w, time.Minute)
	next := w.state
	next.Attempts = append(next.Attempts[:0:0], late)
	h.ok(h.s.Record(h.ctx, w.ID, next))
	h.equal(h.get(w.ID).State, next)
	w.state = next

	h.requeue(w)
	next = w.state
	next.Reason = "recorded while it waits"
	h.ok(h.s.Record(h.ctx, w.ID, next))
	h.equal(h.get(w.ID).State, next)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID{w.ID})

	h.begin(w)
	next = w.state
	next.Reason = "recorded while the next attempt is open"
	h.ok(h.s.Record(h.ctx, w.ID, next))
	e := h.finish(w) // it still is
	next = w.state
	next.Reason = "recorded after the end"
	h.ok(h.s.Record(h.ctx, w.ID, next))
	h.equal(h.get(w.ID).State, next)
	h.equal(h.get(w.ID).Webhook.Order, e.Order)
	h.settle(w.ID)

	fresh := h.add()
	next = fresh.state
	next.Reason = "recorded before any attempt"
	h.ok(h.s.Record(h.ctx, fresh.ID, next))
	h.equal(h.get(fresh.ID).State, next)
}

// recordInterrupted: the attempt of a process that died is over, and its job waits where it stood.
func recordInterrupted(h *harness) {
	w := h.add()
	behind := h.add()
	w.state.Direct = true
	h.begin(w)
	h.reopen()
	open, err := h.s.Interrupted(h.ctx)
	h.ok(err)
	h.equal(len(open), 1)

	next := h.get(w.ID).State.Interrupt(job.Attempt{Number: 1, StartedAt: open[0].StartedAt})
	h.ok(h.s.Record(h.ctx, w.ID, next))
	h.equal(h.get(w.ID).State.Attempts, next.Attempts)
	h.equal(h.get(w.ID).State.Direct, true)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID{w.ID, behind.ID})
	open, err = h.s.Interrupted(h.ctx)
	h.ok(err)
	h.equal(len(open), 0)

	w.state = next
	h.reopen()
	h.equal(h.get(w.ID).State.Crashes, 1)
	h.begin(w)
	h.finish(w)
	h.begin(behind)
	h.finish(behind)
}

func recordStale(h *harness) {
	h.is(h.s.Record(h.ctx, job.ID{1}, job.State{}), store.ErrNotFound)
	w := h.add()
	queued := w.state
	h.begin(w)
	h.is(h.s.Record(h.ctx, w.ID, queued), store.ErrStale)
	h.finish(w)
	h.is(h.s.Record(h.ctx, w.ID, queued), store.ErrStale)
	h.equal(h.get(w.ID).State, w.state)
}

func onlyForward(h *harness) {
	w := h.add()
	h.begin(w)
	first := w.state
	h.retry(w, time.Second)
	h.requeue(w)
	h.begin(w)
	h.finish(w)
	h.is(h.s.Retry(h.ctx, w.entry, first), store.ErrStale)
	h.is(h.s.Begin(h.ctx, w.entry, first, time.Now()), store.ErrStale)
	h.is(h.s.Record(h.ctx, w.ID, first), store.ErrStale)
	h.equal(h.get(w.ID).State.Status, job.Completed)
}
