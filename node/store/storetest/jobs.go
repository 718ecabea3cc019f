package storetest

import (
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func jobTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"Insert/new":                       insertNew,
		"Insert/key is taken":              insertTaken,
		"Insert/keys are exact":            insertExact,
		"Insert/a rerun claims no key":     insertRerun,
		"ID01_OneOfManyInsertsAdds":        insertTogether,
		"Insert/durability":                insertDurability,
		"Get/unknown":                      func(h *harness) { h.gone(job.ID{1}) },
		"Get/every byte survives":          getBytes,
		"Find/unknown":                     findUnknown,
		"Payload/whole body until settled": payloadKept,
		"Payload/kept for a dead letter":   payloadOwable,
		"Payload/short body":               payloadShort,
	}
}

func insertNew(h *harness) {
	w := h.add()
	if w.entry.Order == 0 || w.entry.ID != w.ID || w.entry.Lane != w.Lane() {
		h.t.Fatalf("entry %+v of job %s", w.entry, w.ID)
	}
	h.equal(h.get(w.ID), job.Snapshot{Job: w.Job, State: job.State{Order: w.entry.Order}})
	holder, err := h.s.Find(h.ctx, w.Request.Key().Hash())
	h.ok(err)
	h.equal(holder, store.Holder{ID: w.ID, Payload: w.Request.Payload()})
}

func insertTaken(h *harness) {
	first := h.add(key("k"))
	second := h.job(key("k"), target("http://other.test/"))
	got, err := h.s.Insert(h.ctx, second, store.Default)
	h.ok(err)
	h.equal(got.Entry, job.Entry{})
	h.equal(*got.Holder, store.Holder{ID: first.ID, Payload: first.Request.Payload()})
	h.gone(second.ID)
	h.equal(h.lane(job.Calls, second.Lane()), []job.ID(nil))
}

func insertExact(h *harness) {
	h.add(user("a"), key("b:c"))
	h.add(user("a:b"), key("c"))
	shared := func(j *job.Job) { j.Request.Scope = job.ScopeShared }
	h.add(user("a"), key("c"), shared)
	got, err := h.s.Insert(h.ctx, h.job(user("b"), key("c"), shared), store.Default)
	h.ok(err)
	if got.Holder == nil {
		h.t.Fatal("a shared key was taken twice")
	}
}

func insertRerun(h *harness) {
	first := h.add(key("k"))
	h.add(key("k"), rerunOf(first.ID))
	holder, err := h.s.Find(h.ctx, first.Request.Key().Hash())
	h.ok(err)
	h.equal(holder.ID, first.ID)
	lone := h.add(key("other"), rerunOf(first.ID))
	_, err = h.s.Find(h.ctx, lone.Request.Key().Hash())
	h.is(err, store.ErrNotFound)
}

func insertTogether(h *harness) {
	const callers = 50
	jobs := make([]*job.Job, callers)
	got := make([]store.Inserted, callers)
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range jobs {
		jobs[i] = h.job(key("k"))
		all.Go(func() { got[i], errs[i] = h.s.Insert(h.ctx, jobs[i], store.Default) })
	}
	all.Wait()
	var added job.ID
	for i, g := range got {
		h.ok(errs[i])
		if g.Holder == nil {
			if !added.IsZero() {
				h.t.Fatal("two inserts with one key have added a job")
			}
			added = g.Entry.ID
			h.ids = append(h.ids, added)
		}
	}
	for _, g := range got {
		if g.Holder != nil && g.Holder.ID != added {
			h.t.Fatalf("holder is %s, the job added is %s", g.Holder.ID, added)
		}
	}
	h.equal(len(h.lane(job.Calls, jobs[0].Lane())), 1)
}

func insertDurability(h *harness) {
	for _, d := range []store.Durability{store.Default, store.Flush, store.Sync} {
		j := h.job()
		for range 2 {
			got, err := h.s.Insert(h.ctx, j, d)
			h.ok(err)
			if got.Durability == store.Default || got.Durability < d {
				h.t.Fatalf("asked for %v, got %v", d, got.Durability)
			}
		}
		h.ids = append(h.ids, j.ID)
	}
}

func getBytes(h *harness) {
	raw := []byte{0xff, 0xfe, 0, 0xc3, 0x28}
	w := h.add(func(j *job.Job) {
		j.Request.Body = raw
		j.Request.Headers = append(j.Request.Headers, job.Header{Name: "X-Latin", Value: "caf\xe9"})
	})
	h.begin(w)
	f := w.ending()
	f.Next.Result = &job.Result{Status: 200, ContentType: "text/\xe9", Body: raw, Truncated: true}
	f.Next.Attempts = []job.Attempt{{Number: 1, RetryAfter: "\xff"}}
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	got := h.get(w.ID)
	h.equal(got.Job, w.Job)
	h.equal(got.State, f.Next)
}

func findUnknown(h *harness) {
	time.Sleep(time.Second) // whatever the store prepares after its start is done
	_, err := h.s.Find(h.ctx, h.job().Request.Key().Hash())
	h.is(err, store.ErrNotFound)
}

func payloadKept(h *harness) {
	w := h.add()
	h.begin(w)
	f := w.ending()
	f.Next.Result = &job.Result{Status: 200, Body: []byte("wh"), Truncated: true}
	f.Payload = []byte("whole body")
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	got, err := h.s.Payload(h.ctx, w.ID)
	h.ok(err)
	h.equal(string(got), "whole body")
	h.settle(w.ID)
	got, err = h.s.Payload(h.ctx, w.ID)
	h.ok(err)
	h.equal(string(got), "wh")
}

// payloadOwable: a delivery that did not come through may be owed again, and then owes the same body.
func payloadOwable(h *harness) {
	w := h.add()
	h.begin(w)
	f := w.ending()
	f.Payload = []byte("a body longer than what the result keeps of it")
	_, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	w.state = f.Next
	h.ok(h.s.Settle(h.ctx, w.ID, job.Webhook{State: job.WebhookFailed, Attempts: 5}))
	h.reopen()
	_, err = h.s.Owe(h.ctx, w.ID)
	h.ok(err)
	body, err := h.s.Payload(h.ctx, w.ID)
	h.ok(err)
	h.equal(string(body), string(f.Payload))
	h.settle(w.ID)
}

func payloadShort(h *harness) {
	w := h.add()
	got, err := h.s.Payload(h.ctx, w.ID)
	h.ok(err)
	h.equal(string(got), "")
	h.begin(w)
	h.finish(w)
	got, err = h.s.Payload(h.ctx, w.ID)
	h.ok(err)
	h.equal(string(got), "answer")
	_, err = h.s.Payload(h.ctx, job.ID{1})
	h.is(err, store.ErrNotFound)
}
