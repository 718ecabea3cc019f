package storetest

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func offerAll(h *harness) {
	all := h.everyKind()
	before := map[job.ID]job.Snapshot{}
	for _, w := range all {
		before[w.ID] = h.get(w.ID)
	}
	h.equal(len(h.offer("peer")), len(all))
	for range 2 {
		h.nothingWaits()
		h.equal(len(h.offers()), len(all))
		for name, w := range all {
			h.equal(h.get(w.ID), before[w.ID])
			h.equal(h.offers()[w.ID].Peer, "peer")
			got, err := h.s.Insert(h.ctx, h.job(key(w.Request.KeyName)), store.Default)
			h.ok(err)
			h.equal(got.Holder.ID, w.ID)
			h.refusesAll(name, w, before[w.ID])
		}
		h.reopen()
	}
	h.equal(string(h.offers()[all["owed with a payload"].ID].Payload), "whole body")
}

// refusesAll expects that no transition of an offered job is possible.
func (h *harness) refusesAll(name string, w *work, now job.Snapshot) {
	h.t.Helper()
	x := store.NewHanded(now, nil)
	begun := now.State
	begun.Tried++
	_, finish := h.s.Finish(h.ctx, store.Finish{Job: w.Job, Next: now.State})
	_, requeue := h.s.Requeue(h.ctx, store.Due{At: x.DueAt(), Kind: store.DueCall, ID: w.ID, Lane: w.Lane()})
	_, owe := h.s.Owe(h.ctx, w.ID)
	for step, err := range map[string]error{
		"begin": h.s.Begin(h.ctx, x.Place(), begun, time.Now()), "retry": h.s.Retry(h.ctx, x.Place(), now.State),
		"finish": finish, "requeue": requeue, "owe": owe, "record": h.s.Record(h.ctx, w.ID, now.State),
		"postpone": h.s.Postpone(h.ctx, x.Place(), postponed(time.Now())), "settle": h.s.Settle(h.ctx, w.ID, delivered()),
	} {
		if err == nil || !store.MovedOn(err) {
			h.t.Errorf("%s of the offered job %q: %v", step, name, err)
		}
	}
}

func offerChanged(h *harness) {
	begun, retried, again, ended, settled := h.add(), h.add(), h.add(), h.add(), h.add()
	h.begin(settled)
	h.finish(settled)
	h.begin(again)
	h.retry(again, 0)
	var list []store.Handed
	for _, x := range h.unfinished() {
		list = append(list, x)
	}
	h.equal(len(list), 5)
	h.begin(begun)
	h.begin(retried)
	h.retry(retried, time.Minute)
	h.requeue(again)
	h.begin(ended)
	h.finish(ended)
	h.settle(settled.ID)
	still := h.add()
	x := h.unfinished()[still.ID]
	taken, err := h.s.Offer(h.ctx, "peer", append(list, x, x))
	h.ok(err)
	h.equal(taken, []store.Handed{x})
	h.equal(len(h.unfinished()), 3) // without the open attempt
	taken, err = h.s.Offer(h.ctx, "other", []store.Handed{x})
	h.ok(err)
	h.equal(len(taken), 0)
	h.finish(begun)
	_, err = h.s.Offer(h.ctx, "peer", nil)
	h.ok(err)
}
