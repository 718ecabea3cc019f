package storetest

import (
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func dueTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Due/nothing":                            dueNothing,
		"Due/all kinds, the longest first":       dueOrder,
		"Due/deadline of a job that waits":       dueDeadline,
		"Due/deadline of a job that ends":        dueDeadlineEnds,
		"Pending/all retries and no deadlines":   pendingAll,
		"Requeue/stale":                          requeueStale,
		"Requeue/behind what was added since":    requeueTail,
		"Due/many at once are returned in parts": dueParts,
	}
}

func (h *harness) due(at time.Time, limit int) ([]store.Due, time.Time) {
	h.t.Helper()
	list, next, err := h.s.Due(h.ctx, at, limit)
	h.ok(err)
	return list, next
}

func dueNothing(h *harness) {
	list, next := h.due(time.Now(), 10)
	if len(list) > 0 || !next.IsZero() {
		h.t.Fatalf("an empty store has %v due, next %v", list, next)
	}
}

func dueOrder(h *harness) {
	_, e := h.done()
	now := time.Now()
	call := h.add()
	h.begin(call)
	h.retry(call, 3*time.Second)
	delivery := h.postpone(e, time.Second)
	late := h.add(deadline(now.Add(2 * time.Second)))
	overdue := store.Due{At: late.Deadline, Kind: store.DueDeadline, ID: late.ID, Lane: late.Lane()}
	all := []store.Due{delivery, overdue, call.due}

	for _, test := range []struct {
		after   time.Duration
		limit   int
		want, n int // so many are due; index of the next one
	}{
		{0, 10, 0, 0},
		{time.Second - time.Millisecond, 10, 0, 0},
		{time.Second, 10, 1, 1},
		{3 * time.Second, 10, 3, 3},
		{3 * time.Second, 2, 2, 2},
		{3 * time.Second, 1, 1, 1},
		{3 * time.Second, 0, 0, 0},
	} {
		list, next := h.due(now.Add(test.after), test.limit)
		if len(list) != test.want {
			h.t.Fatalf("%+v: got %v", test, list)
		}
		for i, d := range list {
			h.equal(d, all[i])
		}
		if test.n < len(all) {
			h.equal(next.UnixMilli(), all[test.n].At)
		} else if !next.IsZero() {
			h.t.Fatalf("%+v: the deadline of %d is beyond the horizon, and next is %v", test, call.Deadline, next)
		}
	}
}

func dueDeadline(h *harness) {
	w := h.add(deadline(time.Now().Add(time.Second)))
	want := store.Due{At: w.Deadline, Kind: store.DueDeadline, ID: w.ID, Lane: w.Lane()}
	later := time.Now().Add(time.Minute)
	list, _ := h.due(later, 10)
	h.equal(list, []store.Due{want})

	h.begin(w)
	list, _ = h.due(later, 10)
	h.equal(len(list), 0)
	h.reopen()
	list, _ = h.due(later, 10)
	h.equal(len(list), 0)

	h.retry(w, time.Hour)
	list, _ = h.due(later, 10)
	h.equal(list, []store.Due{want})
	_, err := h.s.Requeue(h.ctx, want)
	if err == nil {
		h.t.Fatal("a deadline was requeued")
	}
}

func dueDeadlineEnds(h *harness) {
	waiting := h.add()
	h.finish(waiting)
	h.done()
	list, next := h.due(time.Now().Add(48*time.Hour), 10)
	if len(list) > 0 || !next.IsZero() {
		h.t.Fatalf("ended jobs are due: %v, next %v", list, next)
	}
}

func pendingAll(h *harness) {
	h.add()
	call := h.add()
	h.begin(call)
	h.retry(call, time.Hour)
	_, e := h.done()
	delivery := h.postpone(e, time.Minute)
	h.reopen()
	got := map[job.ID]store.Due{}
	for d, err := range h.s.Pending(h.ctx) {
		h.ok(err)
		got[d.ID] = d
	}
	h.equal(got, map[job.ID]store.Due{call.ID: call.due, delivery.ID: delivery})
}

func requeueStale(h *harness) {
	w := h.add()
	absent := store.Due{At: 1, Kind: store.DueCall, ID: w.ID, Lane: w.Lane()}
	_, err := h.s.Requeue(h.ctx, absent)
	h.is(err, store.ErrStale)
	h.begin(w)
	h.retry(w, time.Second)
	other := w.due
	other.At++
	_, err = h.s.Requeue(h.ctx, other)
	h.is(err, store.ErrStale)
	other = w.due
	other.Kind = store.DueDelivery
	_, err = h.s.Requeue(h.ctx, other)
	h.is(err, store.ErrStale)
	h.requeue(w)
	_, err = h.s.Requeue(h.ctx, w.due)
	h.is(err, store.ErrStale)
}

func requeueTail(h *harness) {
	w := h.add()
	h.begin(w)
	h.retry(w, time.Second)
	later := h.add()
	h.requeue(w)
	h.equal(h.lane(job.Calls, w.Lane()), []job.ID{later.ID, w.ID})
}

func dueParts(h *harness) {
	const n = 25
	for range n {
		w := h.add()
		h.begin(w)
		h.retry(w, time.Second)
	}
	now := time.Now().Add(time.Second)
	got := map[job.ID]bool{}
	for range n {
		list, next := h.due(now, 4)
		if len(list) == 0 {
			break
		}
		if next.IsZero() && len(got)+len(list) < n {
			h.t.Fatal("more is due, and next is zero")
		}
		for _, d := range list {
			_, err := h.s.Requeue(h.ctx, d)
			h.ok(err)
			got[d.ID] = true
		}
	}
	h.equal(len(got), n)
}
