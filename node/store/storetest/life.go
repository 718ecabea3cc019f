package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func lifeTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Life/everything is there after reopening":  reopenAll,
		"Life/interrupted attempts":                 interrupted,
		"Life/orders grow over reopening":           reopenOrders,
		"Life/closed":                               closed,
		"Life/closing answers everybody":            closeBusy,
		"Life/ended context":                        endedContext,
		"Life/sync and usage":                       syncUsage,
		"Life/jobs go different ways at a time":     together,
		"Life/closing twice, and right after start": func(h *harness) { h.close(); h.ok(h.s.Close()); h.reopen() },
	}
}

func reopenAll(h *harness) {
	jobs := []*work{h.add(), h.add(), h.add()}
	h.begin(jobs[1])
	h.retry(jobs[1], time.Hour)
	h.begin(jobs[2])
	for _, settled := range []bool{true, false} {
		w, _ := h.done()
		if settled {
			h.settle(w.ID)
		}
		jobs = append(jobs, w)
	}
	w, e := h.done()
	h.postpone(e, time.Hour)
	jobs = append(jobs, w)
	before := map[job.ID]job.Snapshot{}
	for _, w := range jobs {
		before[w.ID] = h.get(w.ID)
	}
	h.reopen()
	for _, w := range jobs {
		h.equal(h.get(w.ID), before[w.ID])
		got, err := h.s.Insert(h.ctx, h.job(key(w.Request.KeyName)), store.Default)
		h.ok(err)
		if got.Holder == nil || got.Holder.ID != w.ID {
			h.t.Fatalf("key of %s after reopening: %+v", w.ID, got)
		}
	}
}

func interrupted(h *harness) {
	started := time.Now()
	a, b, c := h.add(), h.add(), h.add()
	h.begin(a)
	h.begin(b)
	h.begin(c)
	h.retry(c, time.Hour)
	list, err := h.s.Interrupted(h.ctx)
	h.ok(err)
	h.equal(len(list), 0) // they are this process's own
	time.Sleep(time.Minute)
	h.reopen()
	own := h.add()
	h.begin(own)

	list, err = h.s.Interrupted(h.ctx)
	h.ok(err)
	got := map[job.ID]store.Interrupted{}
	for _, x := range list {
		got[x.Entry.ID] = x
	}
	h.equal(got, map[job.ID]store.Interrupted{
		a.ID: {Entry: a.entry, Attempt: 1, StartedAt: started.UnixMilli()},
		b.ID: {Entry: b.entry, Attempt: 1, StartedAt: started.UnixMilli()},
	})
	a.state = a.state.Interrupt(job.Attempt{Number: 1, StartedAt: started.UnixMilli()})
	h.retry(a, time.Second)
	h.finish(b)
	h.equal(h.get(a.ID).State.Crashes, 1)
	list, err = h.s.Interrupted(h.ctx)
	h.ok(err)
	h.equal(len(list), 0)
}

func reopenOrders(h *harness) {
	last := h.add().entry.Order
	for range 5 {
		h.reopen()
		w := h.add()
		if w.entry.Order <= last {
			h.t.Fatalf("order %d after %d", w.entry.Order, last)
		}
		last = w.entry.Order
		h.finish(w)
	}
}

// everyCall calls each method of a store.
func (h *harness) everyCall(ctx context.Context, w *work) map[string]error {
	var errs = map[string]error{}
	_, errs["Insert"] = h.s.Insert(ctx, h.job(), store.Default)
	_, errs["Insert rerun"] = h.s.Insert(ctx, h.job(rerunOf(w.ID)), store.Default)
	_, errs["Find"] = h.s.Find(ctx, w.Request.Key().Hash())
	_, errs["Get"] = h.s.Get(ctx, w.ID)
	_, errs["Payload"] = h.s.Payload(ctx, w.ID)
	_, errs["List"] = h.s.List(ctx, store.Query{Limit: 1})
	errs["Begin"] = h.s.Begin(ctx, w.entry, job.State{Tried: 1}, time.Now())
	errs["Retry"] = h.s.Retry(ctx, w.entry, job.State{Tried: 1, DueAt: 1})
	_, errs["Finish"] = h.s.Finish(ctx, w.ending())
	errs["Record"] = h.s.Record(ctx, w.ID, w.state)
	errs["Postpone"] = h.s.Postpone(ctx, w.entry, postponed(time.Now()))
	errs["Settle"] = h.s.Settle(ctx, w.ID, delivered())
	_, errs["Owe"] = h.s.Owe(ctx, w.ID)
	_, errs["Lane"] = h.s.Lane(ctx, job.Calls, w.entry.Lane, 0, 1)
	_, errs["Ahead"] = h.s.Ahead(ctx, job.Calls, w.entry.Lane, 0, w.entry.Order, 1)
	_, _, errs["Due"] = h.s.Due(ctx, time.Now(), 1)
	_, errs["Requeue"] = h.s.Requeue(ctx, store.Due{At: 1, Kind: store.DueCall, ID: w.ID, Lane: w.entry.Lane})
	_, errs["Interrupted"] = h.s.Interrupted(ctx)
	_, errs["Expire"] = h.s.Expire(ctx, time.Now(), 1)
	errs["Sync"] = h.s.Sync(ctx)
	_, errs["Offer"] = h.s.Offer(ctx, "peer", []store.Handed{store.NewHanded(job.Snapshot{Job: w.Job, State: w.state}, nil)})
	_, errs["Keep"] = h.s.Keep(ctx, "peer", nil)
	errs["Forget"] = h.s.Forget(ctx, "peer", nil)
	adopted := []store.Handed{store.NewHanded(job.Snapshot{Job: h.job()}, nil)}
	_, errs["Judge"] = h.s.Judge(ctx, adopted)
	_, errs["Adopt"] = h.s.Adopt(ctx, adopted)
	for _, errs["Unfinished"] = range h.s.Unfinished(ctx) {
		break
	}
	for _, errs["Offers"] = range h.s.Offers(ctx) {
		break
	}
	for _, errs["Waiting"] = range h.s.Waiting(ctx, job.Calls) {
		break
	}
	for _, errs["Pending"] = range h.s.Pending(ctx) {
		break
	}
	return errs
}

func closed(h *harness) {
	w := h.add()
	h.close()
	for name, err := range h.everyCall(h.ctx, w) {
		if !errors.Is(err, store.ErrClosed) {
			h.t.Errorf("%s on a closed store: %v", name, err)
		}
	}
	h.s.Usage()
	h.reopen()
}

func endedContext(h *harness) {
	w := h.add()
	h.begin(w)
	h.retry(w, time.Hour)
	waiting := h.add()
	cause := errors.New("over")
	ctx, cancel := context.WithCancelCause(h.ctx)
	cancel(cause)
	for name, err := range h.everyCall(ctx, waiting) {
		if !errors.Is(err, cause) {
			h.t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	h.equal(h.get(waiting.ID).State, waiting.state)
}

// closeBusy closes a store while others add: each is told, and what was acknowledged is there.
func closeBusy(h *harness) {
	const callers = 20
	var all sync.WaitGroup
	added := make([][]job.ID, callers)
	unknown := make([]error, callers)
	jobs := make([][]*job.Job, callers)
	for i := range callers {
		for range 200 {
			jobs[i] = append(jobs[i], h.job())
		}
		all.Go(func() {
			for _, j := range jobs[i] {
				if _, unknown[i] = h.s.Insert(h.ctx, j, store.Default); unknown[i] != nil {
					return
				}
				added[i] = append(added[i], j.ID)
			}
		})
	}
	h.close()
	all.Wait()
	h.reopen()
	for i := range callers {
		if unknown[i] != nil {
			h.is(unknown[i], store.ErrClosed)
		}
		for _, id := range added[i] {
			h.get(id)
		}
		for _, j := range jobs[i] {
			if _, err := h.s.Get(h.ctx, j.ID); err == nil {
				h.ids = append(h.ids, j.ID)
			}
		}
	}
}

func syncUsage(h *harness) {
	h.add()
	h.ok(h.s.Sync(h.ctx))
	if u := h.s.Usage(); u.SyncLag != 0 || u.Bytes < 0 {
		h.t.Fatalf("usage after a sync: %+v", u)
	}
}

// together runs many lives at a time, with readers.
func together(h *harness) {
	const jobs = 40
	works := make([]*work, jobs)
	for i := range works {
		works[i] = h.add(user([]string{"a", "b", "c"}[i%3]))
	}
	var all sync.WaitGroup
	for _, w := range works {
		all.Go(func() {
			h.begin(w)
			h.retry(w, 0)
			h.requeue(w)
			h.begin(w)
			e := h.finish(w)
			if w.ID[15]%2 == 0 {
				d := h.postpone(e, 0)
				_, err := h.s.Requeue(h.ctx, d)
				h.ok(err)
			}
			h.settle(w.ID)
		})
	}
	for range 4 {
		all.Go(func() {
			for range 20 {
				_, err := h.s.List(h.ctx, store.Query{Limit: 7, Status: job.Queued})
				h.ok(err)
				h.due(time.Now(), 10)
				for _, err := range h.s.Waiting(h.ctx, job.Calls) {
					h.ok(err)
				}
			}
		})
	}
	all.Wait()
	for _, w := range works {
		h.equal(h.get(w.ID).Webhook, delivered())
	}
}
