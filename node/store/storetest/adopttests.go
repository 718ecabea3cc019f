package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// away makes work of each kind, and has the store let go of it as if it had never been here: its copies are
// newer than what it remembers.
func (h *harness) away() map[string]store.Handed {
	h.t.Helper()
	all := h.everyKind()
	copies := h.unfinished()
	h.ok(h.s.Forget(h.ctx, "peer", h.offer("peer")))
	got := map[string]store.Handed{}
	for name, w := range all {
		got[name] = next(copies[w.ID])
	}
	return got
}

func adoptAll(h *harness) {
	all := h.away()
	for _, x := range all {
		h.equal(h.adopt(x), []store.Verdict{store.Adopted})
	}
	for range 2 {
		for _, x := range all {
			h.sameButOrders(x)
			got, err := h.s.Find(h.ctx, x.Job.Request.Key().Hash())
			h.ok(err)
			h.equal(got, store.Holder{ID: x.Job.ID, Payload: x.Job.Request.Payload()})
		}
		body, err := h.s.Payload(h.ctx, all["owed with a payload"].Job.ID)
		h.ok(err)
		h.equal(string(body), "whole body")
		h.checkPlaces()
		h.reopen()
	}
	due, _ := h.due(time.Now().Add(1000*time.Hour), 100)
	h.equal(len(due), 2+4) // retries and deadlines
}

// sameButOrders expects that the store shows a job as it was handed over.
func (h *harness) sameButOrders(x store.Handed) {
	h.t.Helper()
	now := h.get(x.Job.ID)
	if got := store.NewHanded(now, nil); (got.Place().Order == 0) != (x.DueAt() != 0) {
		h.t.Errorf("job %s, due at %d, has the order %d", x.Job.ID, x.DueAt(), got.Place().Order)
	}
	want := x.Snapshot()
	want.State.Order, want.Webhook.Order = now.State.Order, now.Webhook.Order
	h.equal(now, want)
}

func adoptGoesOn(h *harness) {
	for name, x := range h.away() {
		got, err := h.s.Adopt(h.ctx, []store.Handed{x})
		h.ok(err)
		h.ids = append(h.ids, x.Job.ID)
		w := &work{Job: x.Job, entry: got[0].Entry, state: h.get(x.Job.ID).State}
		if at := x.DueAt(); at != 0 {
			w.due = store.Due{At: at, Kind: store.DueCall, ID: w.ID, Lane: w.Lane()}
			if x.Line() == job.Deliveries {
				w.due.Kind, w.due.Lane = store.DueDelivery, w.WebhookLane()
			}
			h.requeue(w)
		}
		if x.Line() == job.Calls {
			h.begin(w)
			h.retry(w, 0)
			h.requeue(w)
			h.begin(w)
			h.equal(h.get(w.ID).State.Tried, x.State.Tried+2)
			h.finish(w)
		}
		h.settle(w.ID)
		h.equal(h.get(w.ID).Webhook, delivered())
		if name == "owed with a payload" {
			h.reopen()
			body, err := h.s.Payload(h.ctx, w.ID)
			h.ok(err)
			h.equal(string(body), "answer")
		}
	}
	h.nothingWaits()
	time.Sleep(2 * keep)
	n, err := h.s.Expire(h.ctx, time.Now(), 100)
	h.ok(err)
	h.equal(n, 8)
}

func adoptTwice(h *harness) {
	for _, x := range h.away() {
		h.equal(h.adopt(x), []store.Verdict{store.Adopted})
		before := h.get(x.Job.ID)
		h.equal(h.adopt(x), []store.Verdict{store.Held})
		h.reopen()
		h.equal(h.adopt(x), []store.Verdict{store.Held})
		h.equal(h.get(x.Job.ID), before)
	}
}

func adoptTogether(h *harness) {
	var list []store.Handed
	for range 20 {
		list = append(list, store.NewHanded(job.Snapshot{Job: h.job()}, nil))
		h.ids = append(h.ids, list[len(list)-1].Job.ID)
	}
	const callers = 8
	got := make([][]store.Adoption, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		mine := slices.Clone(list)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		all.Go(func() { got[i], errs[i] = h.s.Adopt(h.ctx, mine) })
	}
	all.Wait()
	adopted := 0
	for i := range callers {
		h.ok(errs[i])
		for _, a := range got[i] {
			if a.Verdict == store.Adopted {
				adopted++
			} else {
				h.equal(a.Verdict, store.Held)
			}
		}
	}
	h.equal(adopted, len(list))
}

func adoptTaken(h *harness) {
	mine := h.add(key("k"))
	other := store.NewHanded(job.Snapshot{Job: h.job(key("k"))}, nil)
	free := store.NewHanded(job.Snapshot{Job: h.job()}, nil)
	h.equal(h.adopt(other, free), []store.Verdict{store.Taken, store.Adopted})
	h.gone(other.Job.ID)
	holder, err := h.s.Find(h.ctx, mine.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, mine.ID)
}

func adoptRerun(h *harness) {
	first := h.add(key("k"))
	rerun := store.NewHanded(job.Snapshot{Job: h.job(key("k"), rerunOf(first.ID))}, nil)
	h.equal(h.adopt(rerun, rerun), []store.Verdict{store.Adopted, store.Unsettled})
	h.ok(h.s.Forget(h.ctx, "peer", h.offer("peer", rerun.Job.ID)))
	holder, err := h.s.Find(h.ctx, first.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, first.ID)
}

func adoptBatch(h *harness) {
	a := store.NewHanded(job.Snapshot{Job: h.job(key("k"))}, nil)
	b := store.NewHanded(job.Snapshot{Job: h.job(key("k"))}, nil)
	h.equal(h.adopt(a, b, a), []store.Verdict{store.Adopted, store.Taken, store.Unsettled})
	h.gone(b.Job.ID)
	h.equal(len(h.adopt()), 0)
}

// adoptBack: the peer has adopted, and hands the job back before it was forgotten here.
func adoptBack(h *harness) {
	all := h.everyKind()
	for name, w := range all {
		sent := h.offer("peer", w.ID)[0]
		h.equal(h.adopt(sent), []store.Verdict{store.Unsettled})
		back := next(sent)
		h.equal(h.adopt(back), []store.Verdict{store.Adopted})
		h.sameButOrders(back)
		h.ok(h.s.Forget(h.ctx, "peer", []store.Handed{sent})) // the answer about the first offer comes late
		h.keeps("peer", []store.Handed{sent}, nil)
		h.sameButOrders(back)
		h.equal(len(h.offers()), 0)
		if name == "new" {
			w.entry, w.state = store.NewHanded(h.get(w.ID), nil).Place(), h.get(w.ID).State
			h.begin(w)
			h.finish(w)
		}
	}
	h.reopen()
	h.equal(len(h.offers()), 0)
}

// adoptUnsettled: nothing newer is given up for an older copy that may still run here.
func adoptUnsettled(h *harness) {
	w := h.add()
	sent := store.NewHanded(h.get(w.ID), nil)
	h.equal(h.adopt(sent, next(sent)), []store.Verdict{store.Unsettled, store.Unsettled})
	h.equal(h.get(w.ID).Job.Moves, 0)
}

func adoptEnded(h *harness) {
	x := store.NewHanded(job.Snapshot{Job: h.job()}, nil)
	got, err := h.s.Adopt(h.ctx, []store.Handed{x})
	h.ok(err)
	h.ids = append(h.ids, x.Job.ID)
	w := &work{Job: x.Job, entry: got[0].Entry}
	h.begin(w)
	h.finish(w)
	h.equal(h.adopt(x), []store.Verdict{store.Held})
	h.settle(w.ID)
	h.equal(h.adopt(x), []store.Verdict{store.Held})
	time.Sleep(2 * keep) // expired, and not yet removed
	h.equal(h.adopt(x), []store.Verdict{store.Held})
	h.expire(10, 1)
	h.equal(h.adopt(x), []store.Verdict{store.Held})
}

func adoptOrders(h *harness) {
	before := h.add()
	var list []store.Handed
	for range 5 {
		list = append(list, store.NewHanded(job.Snapshot{Job: h.job()}, nil))
	}
	got, err := h.s.Adopt(h.ctx, list)
	h.ok(err)
	last := before.entry
	want := []job.ID{before.ID}
	for i, a := range got {
		h.ids = append(h.ids, a.Entry.ID)
		h.equal(a.Entry, job.Entry{Lane: last.Lane, Order: a.Entry.Order, ID: list[i].Job.ID})
		if a.Entry.Order <= last.Order {
			h.t.Errorf("order %d after %d", a.Entry.Order, last.Order)
		}
		last = a.Entry
		want = append(want, a.Entry.ID)
	}
	h.reopen()
	behind := h.add()
	if behind.entry.Order <= last.Order {
		h.t.Errorf("order %d after %d", behind.entry.Order, last.Order)
	}
	h.equal(h.lane(job.Calls, before.Lane()), append(want, behind.ID))
}
