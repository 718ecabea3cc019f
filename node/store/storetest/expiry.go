package storetest

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func expiryTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Expire/hidden, then removed":       expireHidden,
		"Expire/in parts":                   expireParts,
		"Expire/kept until settled":         expireUnsettled,
		"Expire/key taken by another":       expireKeyTaken,
		"Expire/owed again":                 expireOwed,
		"Expire/unfinished jobs never":      expireUnfinished,
		"Expire/a rerun's first keeps key":  expireRerun,
		"Expire/key is free after removal":  expireKeyFree,
		"Expire/after reopening":            expireReopen,
		"Expire/payload goes with the rest": expirePayload,
	}
}

func (h *harness) expire(limit, want int) {
	h.t.Helper()
	n, err := h.s.Expire(h.ctx, time.Now(), limit)
	h.ok(err)
	if n != want {
		h.t.Fatalf("%d jobs have expired, want %d", n, want)
	}
}

func (h *harness) hidden(w *work) {
	h.t.Helper()
	h.gone(w.ID)
	_, err := h.s.Find(h.ctx, w.Request.Key().Hash())
	h.is(err, store.ErrNotFound)
	h.equal(h.list(store.Query{Limit: 10}), []job.ID(nil))
	h.equal(h.list(store.Query{Limit: 10, UserID: w.Request.UserID}), []job.ID(nil))
	_, err = h.s.Payload(h.ctx, w.ID)
	h.is(err, store.ErrNotFound)
	_, err = h.s.Owe(h.ctx, w.ID)
	h.is(err, store.ErrNotFound)
}

func expireHidden(h *harness) {
	expiry := time.Now().Add(keep)
	w, _ := h.done()
	h.settle(w.ID)
	time.Sleep(time.Until(expiry) - time.Millisecond)
	h.get(w.ID)
	h.expire(10, 0)
	time.Sleep(time.Millisecond)
	h.hidden(w)
	h.expire(10, 1)
	h.hidden(w)
	h.expire(10, 0)
}

func expireParts(h *harness) {
	for range 7 {
		w, _ := h.done()
		h.settle(w.ID)
	}
	time.Sleep(keep)
	h.expire(3, 3)
	h.expire(0, 0)
	h.expire(3, 3)
	h.expire(3, 1)
	for range 600 {
		w, _ := h.done()
		h.settle(w.ID)
	}
	time.Sleep(keep)
	h.expire(550, 550)
	h.expire(550, 50)
}

func expireUnsettled(h *harness) {
	w, _ := h.done()
	time.Sleep(2 * keep)
	h.expire(10, 0)
	h.get(w.ID)
	h.settle(w.ID)
	h.hidden(w)
	h.expire(10, 1)
}

func expireKeyTaken(h *harness) {
	old, _ := h.done(key("k"))
	h.settle(old.ID)
	time.Sleep(keep)
	again := h.add(key("k"))
	h.expire(10, 1)
	holder, err := h.s.Find(h.ctx, again.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, again.ID)
	h.gone(old.ID)
}

func expireKeyFree(h *harness) {
	old, _ := h.done(key("k"))
	h.settle(old.ID)
	time.Sleep(keep)
	h.expire(10, 1)
	h.add(key("k"))
}

func expireOwed(h *harness) {
	w, _ := h.done()
	h.settle(w.ID)
	_, err := h.s.Owe(h.ctx, w.ID)
	h.ok(err)
	time.Sleep(2 * keep)
	h.expire(10, 0)
	h.get(w.ID)
	h.settle(w.ID)
	h.expire(10, 1)
}

func expireUnfinished(h *harness) {
	w := h.add()
	open := h.add()
	h.begin(open)
	time.Sleep(10 * 24 * time.Hour)
	h.expire(10, 0)
	h.get(w.ID)
	h.get(open.ID)
}

func expireRerun(h *harness) {
	first := h.add(key("k"))
	rerun, _ := h.done(key("k"), rerunOf(first.ID))
	h.settle(rerun.ID)
	time.Sleep(keep)
	h.expire(10, 1)
	holder, err := h.s.Find(h.ctx, first.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, first.ID)
}

func expireReopen(h *harness) {
	w, _ := h.done()
	h.reopen()
	h.settle(w.ID)
	time.Sleep(keep)
	h.reopen()
	h.hidden(w)
	h.expire(10, 1)
}

func expirePayload(h *harness) {
	w := h.add()
	h.begin(w)
	f := w.ending()
	f.Payload = []byte("whole")
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	h.settle(w.ID)
	time.Sleep(keep)
	h.expire(10, 1)
	h.hidden(w)
}
