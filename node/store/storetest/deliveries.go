package storetest

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func deliveryTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Deliveries/postponed and settled":   deliveryLife,
		"Deliveries/settled while postponed": settleDue,
		"Deliveries/stale":                   deliveryStale,
		"Deliveries/owed again":              oweAgain,
		"Deliveries/known after reopening":   deliveryReopen,
	}
}

func postponed(at time.Time) job.Webhook {
	return job.Webhook{State: job.WebhookPending, Attempts: 1, LastStatus: 500, DueAt: at.UnixMilli()}
}

func (h *harness) postpone(e job.Entry, wait time.Duration) store.Due {
	h.t.Helper()
	at := time.Now().Add(wait)
	h.ok(h.s.Postpone(h.ctx, e, postponed(at)))
	return store.Due{At: at.UnixMilli(), Kind: store.DueDelivery, ID: e.ID, Lane: e.Lane}
}

func deliveryLife(h *harness) {
	w, e := h.done()
	h.equal(e.Lane, w.WebhookLane())
	d := h.postpone(e, time.Minute)
	h.equal(h.lane(job.Deliveries, e.Lane), []job.ID(nil))
	h.equal(h.get(w.ID).Webhook, postponed(time.UnixMilli(d.At)))
	again, err := h.s.Requeue(h.ctx, d)
	h.ok(err)
	h.equal(h.lane(job.Deliveries, e.Lane), []job.ID{w.ID})
	want := postponed(time.UnixMilli(d.At))
	want.DueAt, want.Order = 0, again.Order
	h.equal(h.get(w.ID).Webhook, want)
	h.settle(w.ID)
	h.equal(h.lane(job.Deliveries, e.Lane), []job.ID(nil))
	h.equal(h.get(w.ID).Webhook, delivered())
}

func settleDue(h *harness) {
	w, e := h.done()
	d := h.postpone(e, time.Minute)
	h.settle(w.ID)
	_, err := h.s.Requeue(h.ctx, d)
	h.is(err, store.ErrStale)
}

func deliveryStale(h *harness) {
	w := h.add()
	h.is(h.s.Settle(h.ctx, w.ID, delivered()), store.ErrStale)
	h.begin(w)
	h.is(h.s.Settle(h.ctx, w.ID, delivered()), store.ErrStale)
	_, err := h.s.Owe(h.ctx, w.ID)
	h.is(err, store.ErrStale)
	e := h.finish(w)
	_, err = h.s.Owe(h.ctx, w.ID)
	h.is(err, store.ErrStale)
	elsewhere := e
	elsewhere.Order++
	h.is(h.s.Postpone(h.ctx, elsewhere, postponed(time.Now())), store.ErrStale)
	h.settle(w.ID)
	h.is(h.s.Settle(h.ctx, w.ID, delivered()), store.ErrStale)
	h.is(h.s.Postpone(h.ctx, e, postponed(time.Now())), store.ErrStale)
	h.is(h.s.Settle(h.ctx, job.ID{1}, delivered()), store.ErrNotFound)
	_, err = h.s.Owe(h.ctx, job.ID{1})
	h.is(err, store.ErrNotFound)
}

func oweAgain(h *harness) {
	w, _ := h.done()
	failed := job.Webhook{State: job.WebhookFailed, Attempts: 5, LastStatus: 500}
	h.ok(h.s.Settle(h.ctx, w.ID, failed))
	e, err := h.s.Owe(h.ctx, w.ID)
	h.ok(err)
	h.equal(h.lane(job.Deliveries, w.WebhookLane()), []job.ID{w.ID})
	h.equal(h.get(w.ID).Webhook, job.Webhook{State: job.WebhookPending, Order: e.Order})
	h.settle(w.ID)
	h.equal(h.get(w.ID).Webhook, delivered())
}

func deliveryReopen(h *harness) {
	plain, _ := h.done()
	waits, e := h.done()
	h.postpone(e, time.Hour)
	h.reopen()
	h.settle(plain.ID)
	h.settle(waits.ID)
}
