package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// RunLedger tests a store that keeps a ledger, as Run tests any store.
func RunLedger(t *testing.T, opener Opener) {
	for name, test := range map[string]func(*harness){
		"an entry for each ended job, in order": ledgerEntries,
		"a batch stays until it is flushed":     ledgerBatchStays,
		"flushed is stale":                      ledgerStale,
		"clears what was flushed":               ledgerClears,
		"flushed jobs that are owed again":      ledgerOwed,
		"key taken by another":                  ledgerKeyTaken,
		"a job that leaves no trace":            ledgerVoid,
		"expired before flushed":                ledgerExpiredFirst,
		"expired before cleared":                ledgerExpired,
		"many":                                  ledgerMany,
		"closed, and ended context":             ledgerClosed,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, t, opener)
				defer h.close()
				test(h)
				h.checkPlaces()
			})
		})
	}
	t.Run("Model", func(t *testing.T) { testLedgerModel(t, opener) })
}

// ledgerTests are for stores that keep no ledger.
func ledgerTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Ledger/is not kept unasked": func(h *harness) {
			w, _ := h.done()
			h.settle(w.ID)
			h.batch(10)
			h.equal(h.s.Ledgered(), uint64(0))
			h.is(h.s.LedgerFlushed(h.ctx, 1), store.ErrStale)
			h.clear(0)
			h.get(w.ID)
		},
	}
}

// batch checks that the batch has these jobs.
func (h *harness) batch(limit int, want ...*work) []job.LedgerEntry {
	h.t.Helper()
	list, err := h.s.LedgerBatch(h.ctx, limit)
	h.ok(err)
	var got, ids []job.ID
	for _, e := range list {
		got = append(got, e.ID)
	}
	for _, w := range want {
		ids = append(ids, w.ID)
	}
	h.equal(got, ids)
	return list
}

// flush flushes a batch of these jobs.
func (h *harness) flush(limit int, want ...*work) {
	h.t.Helper()
	list := h.batch(limit, want...)
	h.ok(h.s.LedgerFlushed(h.ctx, list[len(list)-1].Sequence))
}

func (h *harness) clear(want int) {
	h.t.Helper()
	n, err := h.s.ClearFlushed(h.ctx)
	h.ok(err)
	h.equal(n, want)
}

// over takes a new job through to the end of its delivery.
func (h *harness) over(edit ...func(*job.Job)) *work {
	h.t.Helper()
	w, _ := h.done(edit...)
	h.settle(w.ID)
	return w
}

// A job that was for an attempt past the queue alone is entered only if it completes.
func ledgerVoid(h *harness) {
	only := func(j *job.Job) { j.DirectOnly = true }
	w := h.add(only)
	f := w.ending()
	f.Next.Status = job.Failed
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	w.state = f.Next
	done := h.over(only, key("done"))
	h.batch(10, done)
	h.equal(h.s.Ledgered(), uint64(1))
}

func ledgerEntries(h *harness) {
	h.add()
	h.batch(10)
	first := h.over(key("k"))
	waiting := h.add(func(j *job.Job) { j.Request.Scope = job.ScopeShared })
	time.Sleep(time.Second)
	f := waiting.ending()
	f.Next.Status, f.Next.Reason = job.Failed, "execution_deadline_exceeded"
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	waiting.state = f.Next
	rerun := h.over(key("k"), rerunOf(first.ID))
	h.equal(h.s.Ledgered(), uint64(3))

	list := h.batch(10, first, waiting, rerun)
	for i, w := range []*work{first, waiting, rerun} {
		h.equal(list[i], job.NewLedgerEntry(w.Job, w.state, list[i].Sequence))
		if i > 0 && list[i].Sequence <= list[i-1].Sequence {
			h.t.Fatalf("sequence %d after %d", list[i].Sequence, list[i-1].Sequence)
		}
	}
	h.equal(list[0].KeyHash, list[2].KeyHash)
	h.equal(list[1].UserHash, "")
	h.equal(list[2].Rerun, true)
}

func ledgerBatchStays(h *harness) {
	a, b, c := h.over(), h.over(), h.over()
	first := h.batch(2, a, b)
	d := h.over()
	h.equal(h.batch(10, a, b), first)
	h.reopen()
	h.equal(h.s.Ledgered(), uint64(0))
	h.equal(h.batch(1, a, b), first)
	h.ok(h.s.LedgerFlushed(h.ctx, first[1].Sequence))
	h.reopen()
	second := h.batch(10, c, d)
	if second[0].Sequence <= first[1].Sequence {
		h.t.Fatalf("sequence %d after %d", second[0].Sequence, first[1].Sequence)
	}
	h.ok(h.s.LedgerFlushed(h.ctx, second[1].Sequence))
	h.batch(10)
}

func ledgerStale(h *harness) {
	h.is(h.s.LedgerFlushed(h.ctx, 0), store.ErrStale)
	a, b := h.over(), h.over()
	h.is(h.s.LedgerFlushed(h.ctx, 0), store.ErrStale)
	list := h.batch(10, a, b)
	h.is(h.s.LedgerFlushed(h.ctx, list[0].Sequence), store.ErrStale)
	h.is(h.s.LedgerFlushed(h.ctx, list[1].Sequence+1), store.ErrStale)
	h.flush(10, a, b)
	h.is(h.s.LedgerFlushed(h.ctx, list[1].Sequence), store.ErrStale)
}

func ledgerClears(h *harness) {
	a, b := h.over(), h.over()
	owed, place := h.done()
	h.clear(0)
	h.batch(10, a, b, owed) // being flushed is not flushed
	h.clear(0)
	h.flush(10, a, b, owed)
	ended, accepted := h.over(), h.add()

	h.clear(2)
	h.clear(0)
	for _, w := range []*work{a, b} {
		h.hiddenKey(w)
	}
	for _, w := range []*work{owed, ended, accepted} {
		h.get(w.ID)
	}
	h.reopen()
	h.ok(h.s.Postpone(h.ctx, place, postponed(time.Now())))
	h.clear(0)
	h.settle(owed.ID)
	h.clear(1)
	h.gone(owed.ID)
	h.flush(10, ended)
	h.clear(1)
	h.expire(10, 0)
	h.add(key(a.Request.KeyName))
}

// hiddenKey checks that neither the job nor its key is found.
func (h *harness) hiddenKey(w *work) {
	h.t.Helper()
	h.gone(w.ID)
	_, err := h.s.Find(h.ctx, w.Request.Key().Hash())
	h.is(err, store.ErrNotFound)
}

func ledgerOwed(h *harness) {
	w := h.over()
	h.flush(10, w)
	_, err := h.s.Owe(h.ctx, w.ID)
	h.ok(err)
	h.clear(0)
	h.batch(10) // it has not ended once more
	h.settle(w.ID)
	h.clear(1)
	h.gone(w.ID)
}

func ledgerKeyTaken(h *harness) {
	old := h.over(key("k"))
	h.flush(10, old)
	time.Sleep(keep)
	again := h.add(key("k"))
	h.clear(1)
	holder, err := h.s.Find(h.ctx, again.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, again.ID)
}

func ledgerExpiredFirst(h *harness) {
	w := h.over()
	time.Sleep(keep)
	h.expire(10, 1)
	h.flush(10, w)
	h.clear(0)
}

func ledgerExpired(h *harness) {
	w := h.over()
	h.flush(10, w)
	time.Sleep(keep)
	h.expire(10, 1)
	h.clear(0)
}

func ledgerMany(h *harness) {
	var all []*work
	for range 600 {
		all = append(all, h.over())
	}
	h.flush(599, all[:599]...)
	h.clear(599)
	h.get(all[599].ID)
	h.flush(1, all[599])
	h.clear(1)
}

func ledgerClosed(h *harness) {
	h.flush(10, h.over())
	batch := h.batch(10, h.over())
	cause := errors.New("over")
	ctx, cancel := context.WithCancelCause(h.ctx)
	cancel(cause)
	try := func(ctx context.Context, want error) {
		h.t.Helper()
		_, err := h.s.LedgerBatch(ctx, 1)
		h.is(err, want)
		h.is(h.s.LedgerFlushed(ctx, batch[0].Sequence), want)
		_, err = h.s.ClearFlushed(ctx)
		h.is(err, want)
	}
	try(ctx, cause)
	h.close()
	try(h.ctx, store.ErrClosed)
	h.reopen()
	h.equal(h.batch(10, &work{Job: &job.Job{ID: batch[0].ID}}), batch)
	h.clear(1)
}

// testLedgerModel does random things to a store and keeps account of what must be in its ledger, and of what
// must be left: all that was not flushed.
func testLedgerModel(t *testing.T, opener Opener) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			a := &account{h: newHarness(t, rt, opener)}
			defer a.h.close()
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				a.step(rt)
			}
			a.check()
			a.h.checkPlaces()
		})
	})
}

// account is what the model has of each job, by its stage.
type account struct {
	h                               *harness
	accepted, ended, flushed, clear []*work // ended: in the ledger, in order
	owed                            map[job.ID]bool
	cut                             int // of ended; 0: none
}

func (a *account) step(rt *rapid.T) {
	h := a.h
	switch rapid.SampledFrom([]string{"accept", "accept", "end", "end", "settle", "batch", "flush", "clear", "reopen"}).Draw(rt, "action") {
	case "accept":
		a.accepted = append(a.accepted, h.add())
	case "end":
		if len(a.accepted) > 0 {
			i := rapid.IntRange(0, len(a.accepted)-1).Draw(rt, "job")
			a.end(a.accepted[i], rapid.Bool().Draw(rt, "settled"))
			a.accepted = slices.Delete(a.accepted, i, i+1)
		}
	case "settle":
		for id := range a.owed {
			h.settle(id)
		}
		a.owed = nil
	case "batch":
		a.batch(rapid.IntRange(1, 5).Draw(rt, "limit"))
	case "flush":
		a.flush()
	case "clear":
		kept := a.flushed[:0:0]
		for _, w := range a.flushed {
			if a.owed[w.ID] {
				kept = append(kept, w)
			} else {
				a.clear = append(a.clear, w)
			}
		}
		h.clear(len(a.flushed) - len(kept))
		a.flushed = kept
	case "reopen":
		h.reopen()
	}
}

func (a *account) end(w *work, settled bool) {
	a.h.finish(w)
	a.ended = append(a.ended, w)
	if settled {
		a.h.settle(w.ID)
		return
	}
	if a.owed == nil {
		a.owed = make(map[job.ID]bool)
	}
	a.owed[w.ID] = true
}

func (a *account) batch(limit int) {
	if a.cut == 0 {
		a.cut = min(limit, len(a.ended))
	}
	a.h.batch(limit, a.ended[:a.cut]...)
}

func (a *account) flush() {
	if a.cut == 0 {
		a.h.is(a.h.s.LedgerFlushed(a.h.ctx, ^job.Order(0)), store.ErrStale)
		return
	}
	a.h.flush(1, a.ended[:a.cut]...)
	a.flushed = append(a.flushed, a.ended[:a.cut]...)
	a.ended, a.cut = a.ended[a.cut:], 0
}

// check compares what is left with what must be.
func (a *account) check() {
	for _, w := range slices.Concat(a.accepted, a.ended, a.flushed) {
		a.h.get(w.ID)
	}
	for _, w := range a.clear {
		a.h.hiddenKey(w)
	}
}
