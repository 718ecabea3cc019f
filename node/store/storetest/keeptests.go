package storetest

import (
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func keepAll(h *harness) {
	all := h.everyKind()
	before, due := h.unfinished(), func() []store.Due { list, _ := h.due(time.Now().Add(1000*time.Hour), 100); return list }
	waited := due()
	h.offer("peer")
	h.reopen()
	h.keep("peer")
	for range 2 {
		h.equal(h.unfinished(), before)
		h.equal(due(), waited)
		h.equal(len(h.offers()), 0)
		h.checkPlaces()
		h.reopen()
	}
	taken := h.offer("peer")
	h.keeps("peer", append(taken, taken...), taken)
	h.keeps("peer", taken, taken)
	h.begin(all["new"])
	h.finish(all["new"])
	h.requeue(all["due"])
	moved := []job.ID{all["new"].ID, all["due"].ID}
	h.keeps("peer", taken, slices.DeleteFunc(slices.Clone(taken), func(x store.Handed) bool { return slices.Contains(moved, x.Job.ID) }))
	for _, name := range []string{"new", "owed", "owed and due", "owed and tried", "owed with a payload"} {
		h.settle(all[name].ID)
	}
}

func forgetAll(h *harness) {
	all := h.everyKind()
	taken := h.offer("peer")
	h.ok(h.s.Forget(h.ctx, "peer", append(taken, taken...)))
	for range 2 {
		h.nothingWaits()
		h.equal(len(h.offers()), 0)
		for _, x := range taken {
			h.gone(x.Job.ID)
			h.equal(h.adopt(x), []store.Verdict{store.Held})
		}
		page, err := h.s.List(h.ctx, store.Query{UserID: "user", Limit: 100})
		h.ok(err)
		h.equal(page, store.Page{})
		h.ok(h.s.Forget(h.ctx, "peer", taken))
		h.reopen()
	}
	for _, w := range all { // the keys are free
		h.add(key(w.Request.KeyName))
	}
}

func forgetDepartures(h *harness) {
	h.add()
	x := h.offer("peer")[0]
	h.ok(h.s.Forget(h.ctx, "peer", []store.Handed{x}))
	time.Sleep(store.LeftFor - time.Second)
	_, err := h.s.Expire(h.ctx, time.Now(), 10)
	h.ok(err)
	h.equal(h.adopt(x), []store.Verdict{store.Held})
	time.Sleep(48 * time.Hour)
	_, err = h.s.Expire(h.ctx, time.Now(), 10)
	h.ok(err)
	h.equal(h.adopt(x), []store.Verdict{store.Adopted})
}

func offerPeers(h *harness) {
	a, b := h.add(), h.add()
	stranger := store.NewHanded(job.Snapshot{Job: h.job()}, nil)
	both := append(h.offer("a", a.ID), append(h.offer("b", b.ID), stranger)...)
	h.ok(h.s.Forget(h.ctx, "a", []store.Handed{next(both[0])})) // a copy that nobody has
	h.ok(h.s.Forget(h.ctx, "b", both))
	h.equal(len(h.offers()), 1)
	h.keeps("b", both, nil)
	h.equal(h.offers()[a.ID].Peer, "a")
	h.keeps("a", both, both[:1])
	h.gone(b.ID)
	h.begin(a)
	h.finish(a)
}
