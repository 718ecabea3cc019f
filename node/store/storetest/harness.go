package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// keep is how long the suites keep ended jobs.
const keep = 30 * time.Minute

// harness is one store under test, with short forms of what tests do most. A short form fails the test
// when the store does not do what it must.
type harness struct {
	t    tester
	ctx  context.Context
	open func() (store.Store, error)
	s    store.Store
	next uint64
	ids  []job.ID // of all jobs added
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// newHarness opens a store and reports to r.
func newHarness(t *testing.T, r tester, opener Opener) *harness {
	h := &harness{t: r, ctx: t.Context(), open: opener(t)}
	h.reopen()
	return h
}

// reopen closes the store, if it is open, and opens it again.
func (h *harness) reopen() {
	h.t.Helper()
	if h.s != nil {
		h.close()
	}
	s, err := h.open()
	h.ok(err)
	h.s = s
}

func (h *harness) close() {
	h.t.Helper()
	h.ok(h.s.Close())
}

func (h *harness) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("unexpected error: %v", err)
	}
}

func (h *harness) is(err, want error) {
	h.t.Helper()
	if !errors.Is(err, want) {
		h.t.Fatalf("got error %v, want %v", err, want)
	}
}

func (h *harness) equal(got, want any) {
	h.t.Helper()
	if !reflect.DeepEqual(got, want) {
		h.t.Fatalf("got  %s\nwant %s", show(got), show(want))
	}
}

func show(v any) string {
	if s, ok := v.(job.Snapshot); ok && s.Job != nil {
		result := s.State.Result
		s.State.Result = nil // a pointer, whose value says nothing
		return fmt.Sprintf("%+v state %+v result %+v webhook %+v", *s.Job, s.State, result, s.Webhook)
	}
	return fmt.Sprintf("%+v", v)
}

// job returns a new job, not yet in the store. Its key is its own unless edit sets one.
func (h *harness) job(edit ...func(*job.Job)) *job.Job {
	h.next++
	now := time.Now().UnixMilli()
	j := &job.Job{
		Request: job.Request{
			UserID: "user", KeyName: fmt.Sprintf("key-%d", h.next), URL: "http://target.test/path",
			Method: "POST", Headers: []job.Header{{Name: "Authorization", Value: "secret"}},
			Body: []byte("body"), WebhookURL: "http://receiver.test/hook", MaxRetries: 4, TimeoutMS: job.UnsetTimeout,
		},
		CreatedAt: now, Deadline: now + (24 * time.Hour).Milliseconds(),
	}
	binary.BigEndian.PutUint64(j.ID[:8], uint64(now)<<16)
	binary.BigEndian.PutUint64(j.ID[8:], h.next)
	for _, e := range edit {
		e(j)
	}
	return j
}

func user(id string) func(*job.Job)        { return func(j *job.Job) { j.Request.UserID = id } }
func key(name string) func(*job.Job)       { return func(j *job.Job) { j.Request.KeyName = name } }
func target(url string) func(*job.Job)     { return func(j *job.Job) { j.Request.URL = url } }
func rerunOf(id job.ID) func(*job.Job)     { return func(j *job.Job) { j.RedriveOf = id } }
func deadline(at time.Time) func(*job.Job) { return func(j *job.Job) { j.Deadline = at.UnixMilli() } }

// work is a job in the store and its place.
type work struct {
	*job.Job
	entry job.Entry // in its lane
	due   store.Due // among what is due
	state job.State // as last stored
}

// add inserts a new job.
func (h *harness) add(edit ...func(*job.Job)) *work {
	h.t.Helper()
	j := h.job(edit...)
	got, err := h.s.Insert(h.ctx, j, store.Default)
	h.ok(err)
	if got.Holder != nil {
		h.t.Fatalf("key of a new job is held by %s", got.Holder.ID)
	}
	h.ids = append(h.ids, j.ID)
	return &work{Job: j, entry: got.Entry, state: job.State{Order: got.Entry.Order}}
}

func (h *harness) begin(w *work) {
	h.t.Helper()
	next, ok := w.state.Begin(w.state.Tried + 1)
	if !ok {
		h.t.Fatal("the test begins an attempt that cannot begin")
	}
	h.ok(h.s.Begin(h.ctx, w.entry, next, time.Now()))
	w.state = next
}

func (w *work) attempt() job.Attempt {
	return job.Attempt{Number: w.state.Tried, StartedAt: time.Now().UnixMilli(), Status: 503}
}

// retry ends the open attempt and lets the job wait for so long.
func (h *harness) retry(w *work, wait time.Duration) {
	h.t.Helper()
	at := time.Now().Add(wait).UnixMilli()
	next, _ := w.state.Retry(w.attempt(), at)
	h.ok(h.s.Retry(h.ctx, w.entry, next))
	w.state, w.due = next, store.Due{At: at, Kind: store.DueCall, ID: w.ID, Lane: w.Lane()}
}

func (h *harness) requeue(w *work) {
	h.t.Helper()
	e, err := h.s.Requeue(h.ctx, w.due)
	h.ok(err)
	w.entry, w.state.Order, w.state.DueAt = e, e.Order, 0
}

// ending returns the end of the job with its open attempt, or without one.
func (w *work) ending() store.Finish { return w.endingAt(time.Now()) }

func (w *work) endingAt(at time.Time) store.Finish {
	end := job.End{
		Status: job.Completed, At: at.UnixMilli(), Keep: keep.Milliseconds(),
		Result: &job.Result{Status: 200, ContentType: "text/plain", Body: []byte("answer")},
	}
	next, _ := w.state.Finish(end)
	return store.Finish{Job: w.Job, Next: next}
}

// finish ends the job and returns the place of its delivery.
func (h *harness) finish(w *work) job.Entry {
	h.t.Helper()
	f := w.ending()
	e, err := h.s.Finish(h.ctx, f)
	h.ok(err)
	w.state = f.Next
	return e
}

// done takes a new job through to its end.
func (h *harness) done(edit ...func(*job.Job)) (*work, job.Entry) {
	h.t.Helper()
	w := h.add(edit...)
	h.begin(w)
	return w, h.finish(w)
}

func (h *harness) settle(id job.ID) {
	h.t.Helper()
	h.ok(h.s.Settle(h.ctx, id, delivered()))
}

func delivered() job.Webhook {
	return job.Webhook{State: job.WebhookDelivered, Attempts: 1, LastStatus: 204, DeliveredAt: 1}
}

func (h *harness) get(id job.ID) job.Snapshot {
	h.t.Helper()
	got, err := h.s.Get(h.ctx, id)
	h.ok(err)
	return got
}

func (h *harness) gone(id job.ID) {
	h.t.Helper()
	_, err := h.s.Get(h.ctx, id)
	h.is(err, store.ErrNotFound)
}

// lane returns the ids that wait in a lane.
func (h *harness) lane(line job.Line, lane job.Lane) []job.ID {
	h.t.Helper()
	entries, err := h.s.Lane(h.ctx, line, lane, 0, 1000)
	h.ok(err)
	var ids []job.ID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}
