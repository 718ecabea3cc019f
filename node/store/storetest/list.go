package storetest

import (
	"slices"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func listTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"List/newest first":          listOrder,
		"List/filters":               listFilters,
		"List/pages":                 listPages,
		"List/few among many":        listFew,
		"List/one user's among many": listUser,
	}
}

// list reads all pages.
func (h *harness) list(q store.Query) []job.ID {
	h.t.Helper()
	var ids []job.ID
	for range 1000 {
		page, err := h.s.List(h.ctx, q)
		h.ok(err)
		if len(page.Jobs) > q.Limit {
			h.t.Fatalf("page of %d jobs, the limit is %d", len(page.Jobs), q.Limit)
		}
		for _, s := range page.Jobs {
			h.equal(s, h.get(s.Job.ID))
			ids = append(ids, s.Job.ID)
		}
		if page.Next.IsZero() {
			return ids
		}
		q.Before = page.Next
	}
	h.t.Fatal("the list does not end")
	return nil
}

func (h *harness) newestFirst(all ...*work) []job.ID {
	var ids []job.ID
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return -slices.Compare(a[:], b[:]) })
	return ids
}

func listOrder(h *harness) {
	a, b, c := h.add(), h.add(), h.add()
	h.equal(h.list(store.Query{Limit: 10}), h.newestFirst(a, b, c))
	h.equal(h.list(store.Query{Limit: 10, Before: c.ID}), h.newestFirst(a, b))
}

func listFilters(h *harness) {
	waiting := h.add(user("u1"), target("http://a.test:8080/x"))
	ended, _ := h.done(user("u2"))
	settled, _ := h.done(user("u1"))
	h.settle(settled.ID)
	for _, test := range []struct {
		q    store.Query
		want []job.ID
	}{
		{store.Query{UserID: "u1"}, h.newestFirst(waiting, settled)},
		{store.Query{UserID: "u"}, nil},
		{store.Query{Status: job.Queued}, h.newestFirst(waiting)},
		{store.Query{Status: job.Completed}, h.newestFirst(ended, settled)},
		{store.Query{Target: "a.test:8080"}, h.newestFirst(waiting)},
		{store.Query{Webhook: job.WebhookNone}, h.newestFirst(waiting)},
		{store.Query{Webhook: job.WebhookPending}, h.newestFirst(ended)},
		{store.Query{Webhook: job.WebhookDelivered}, h.newestFirst(settled)},
		{store.Query{UserID: "u1", Status: job.Completed, Target: "target.test", Webhook: job.WebhookDelivered}, h.newestFirst(settled)},
	} {
		test.q.Limit = 10
		h.equal(h.list(test.q), test.want)
	}
}

func listPages(h *harness) {
	var all []*work
	for range 7 {
		all = append(all, h.add())
	}
	for limit := 1; limit <= 8; limit++ {
		h.equal(h.list(store.Query{Limit: limit}), h.newestFirst(all...))
	}
	// The cursor is stable: what is added later does not move it.
	page, err := h.s.List(h.ctx, store.Query{Limit: 3})
	h.ok(err)
	h.add()
	h.equal(h.list(store.Query{Limit: 3, Before: page.Next}), h.newestFirst(all...)[3:])
}

func listFew(h *harness) {
	first := h.add(target("http://rare.test/"))
	for range 1200 {
		h.add()
	}
	h.equal(h.list(store.Query{Limit: 2, Target: "rare.test"}), h.newestFirst(first))
}

func listUser(h *harness) {
	a := h.add(user("a"))
	for range 20 {
		h.add(user("b"))
	}
	c := h.add(user("a"))
	h.equal(h.list(store.Query{Limit: 2, UserID: "a"}), h.newestFirst(a, c))
	h.equal(h.list(store.Query{Limit: 1, UserID: "a"}), h.newestFirst(a, c))
}
