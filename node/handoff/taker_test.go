package handoff_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

// body is a batch as a peer could send it.
type body struct {
	Version int `cbor:"1,keyasint"`
	Work    any `cbor:"2,keyasint"`
	More    int `cbor:"3,keyasint,omitempty"`
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (n *node) post(b []byte, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(n.w.t.Context(), http.MethodPost, handoff.Path, bytes.NewReader(b))
	r.Header.Set("Content-Type", handoff.ContentType)
	r.Header.Set("Peer", "a")
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	n.taker.ServeHTTP(w, r)
	return w
}

func TestWhatIsNoBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "b")
		b := w.nodes["b"]
		good := func(edit ...func(*store.Handed)) store.Handed {
			h := store.NewHanded(job.Snapshot{Job: w.job("u")}, nil)
			for _, e := range edit {
				e(&h)
			}
			return h
		}
		batch := func(edit ...func(*store.Handed)) []byte {
			return encode(t, body{Version: 1, Work: []store.Handed{good(), good(edit...)}})
		}
		twin := good()
		none := func(*http.Request) {}
		for name, c := range map[string]struct {
			body   []byte
			edit   func(*http.Request)
			status int
			says   string
		}{
			"no peer":       {batch(), func(r *http.Request) { r.Header.Del("Peer") }, 403, "only nodes"},
			"another verb":  {batch(), func(r *http.Request) { r.Method = http.MethodPut }, 405, "posted"},
			"another type":  {batch(), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "application/cbor"},
			"too large":     {make([]byte, 1<<20+1), none, 413, "at most 1048576 bytes"},
			"empty":         {nil, none, 400, "cannot be read"},
			"text":          {[]byte("{}"), none, 400, "cannot be read"},
			"a new version": {encode(t, body{Version: 2, Work: []store.Handed{good()}}), none, 400, "version 2, this node knows 1"},
			"a new field":   {encode(t, body{Version: 1, Work: []store.Handed{good()}, More: 1}), none, 400, "unknown field"},
			"no jobs":       {encode(t, body{Version: 1}), none, 400, "1 to 1024 jobs, got 0"},
			"too many jobs": {encode(t, body{Version: 1, Work: make([]struct{}, 1025)}), none, 400, "1 to 1024 jobs, got 1025"},
			"a job twice":   {encode(t, body{Version: 1, Work: []store.Handed{twin, twin}}), none, 400, "is there twice"},
			"no job":        {encode(t, body{Version: 1, Work: []store.Handed{{}}}), none, 400, "the job is missing"},
			"trailing":      {append(batch(), 0), none, 400, "cannot be read"},
			"cut":           {batch()[:50], none, 400, "cannot be read"},
			"no id":         {batch(func(h *store.Handed) { h.Job.ID = job.ID{} }), none, 400, "job 1 of the batch: id must not be zero"},
			"no moves":      {batch(func(h *store.Handed) { h.Job.Moves = 0 }), none, 400, "moves must be at least 1, got 0"},
			"no user":       {batch(func(h *store.Handed) { h.Job.Request.UserID = "" }), none, 400, "must have a user"},
			"no url":        {batch(func(h *store.Handed) { h.Job.Request.URL = "" }), none, 400, "one of url and pool"},
			"a strange url": {batch(func(h *store.Handed) { h.Job.Request.URL = "ftp://x" }), none, 400, `url must be absolute http or https, got "ftp://x"`},
			"no webhook":    {batch(func(h *store.Handed) { h.Job.Request.WebhookURL = "" }), none, 400, "webhook_url"},
			"a scope":       {batch(func(h *store.Handed) { h.Job.Request.Scope = 2 }), none, 400, "scope must be 0 or 1, got 2"},
			"no deadline":   {batch(func(h *store.Handed) { h.Job.Deadline = 0 }), none, 400, "deadline"},
			"attempts":      {batch(func(h *store.Handed) { h.State.Attempts = make([]job.Attempt, 51) }), none, 400, "attempts"},
			"a status":      {batch(func(h *store.Handed) { h.State.Status = "lost" }), none, 400, `got "lost"`},
			"a result":      {batch(func(h *store.Handed) { h.State.Result = &job.Result{} }), none, 400, "must have no end"},
			"settled": {batch(func(h *store.Handed) {
				h.State.Status, h.Webhook.State = job.Failed, job.WebhookDelivered
			}), none, 400, `must be pending, got "delivered"`},
			"kept for ever": {batch(func(h *store.Handed) {
				h.State.Status, h.Webhook.State = job.Failed, job.WebhookPending
			}), none, 400, "must expire"},
		} {
			got := b.post(c.body, c.edit)
			if got.Code != c.status || !strings.Contains(strings.ReplaceAll(got.Body.String(), `\"`, `"`), c.says) {
				t.Errorf("%s: %d %s", name, got.Code, got.Body)
			}
		}
		w.want(len(b.unfinished()), 0)
		b.queued()
		w.want(b.post(batch()).Code, 200)
		w.want(len(b.unfinished()), 2)
	})
}

// TestBatchesAtATime posts one batch by many at a time: each job is adopted and queued once.
func TestBatchesAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "b")
		b := w.nodes["b"]
		var work []store.Handed
		for range 20 {
			work = append(work, store.NewHanded(job.Snapshot{Job: w.job("u")}, nil))
		}
		sent := encode(t, body{Version: 1, Work: work})
		for range 8 {
			go b.post(sent)
		}
		synctest.Wait()
		w.want(len(b.unfinished()), 20)
		b.queued()
	})
}

// TestGoneBeforeItsTurn cuts a giver off whose batch waits for another one: nothing of it is taken, and it is no
// fault of this node.
func TestGoneBeforeItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "b")
		b := w.nodes["b"]
		var logged bytes.Buffer
		var err error
		room := make(chan struct{})
		b.taker, err = handoff.NewTaker(handoff.TakerConfig{
			Store: b, Lines: handoff.Lines{Calls: b.calls, Deliveries: b.deliveries, Wake: b.wake}, MaxBytes: 1 << 20,
			Logger:   slog.New(slog.NewTextHandler(&logged, nil)),
			FromPeer: func(*http.Request) bool { return true },
			Room:     func(int64) error { <-room; return nil },
		})
		b.ok(err)
		batch := func() []byte {
			return encode(t, body{Version: 1, Work: []store.Handed{store.NewHanded(job.Snapshot{Job: w.job("u")}, nil)}})
		}
		go b.post(batch())
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan int)
		go func() { gone <- b.post(batch(), func(r *http.Request) { *r = *r.WithContext(ctx) }).Code }()
		synctest.Wait()
		leave()
		w.want(<-gone, 503)
		close(room)
		synctest.Wait()
		w.want(len(b.unfinished()), 1)
		w.want(logged.String(), "")
		b.queued()
	})
}

// TestAnyFaults hands work to and fro between nodes that crash, over links that fail, from disks that fail:
// at no moment does a job stand at two nodes, none is lost, and in the end each one stands somewhere.
func TestAnyFaults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(rt *rapid.T) {
			w := newWorld(t, "a", "b", "c")
			names := rapid.SampledFrom([]string{"a", "b", "c"})
			jobs := 0
			w.links = map[string]link{"a": sound, "b": sound, "c": sound}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				n := w.nodes[names.Draw(rt, "node")]
				switch rapid.SampledFrom([]string{"add", "drain", "drain", "resume", "restart", "link", "disk", "full"}).Draw(rt, "step") {
				case "add":
					more := rapid.IntRange(1, 7).Draw(rt, "jobs")
					n.disk.SetFault(nil)
					n.add("u", more)
					jobs += more
				case "drain":
					n.refuse(errDraining)
					w.owners = func(*job.Job) []string { return others(n.id) }
					n.drain(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
				case "resume":
					n.resume(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
				case "restart":
					n.start()
				case "link":
					w.links[n.id] = rapid.SampledFrom([]link{sound, lost, mute, twice, undialed, status(503)}).Draw(rt, "link")
				case "disk":
					method := rapid.SampledFrom([]string{"Offer", "Keep", "Forget", "Adopt"}).Draw(rt, "method")
					n.disk.SetFault(storetest.Failing(method, rapid.IntRange(1, 40).Draw(rt, "times"), rapid.Bool().Draw(rt, "landed")))
				case "full":
					n.refuse(errDraining)
				}
				w.out = map[string]bool{}
				w.once(jobs)
			}
			w.heal()
			w.once(jobs)
			for _, n := range w.nodes {
				w.want(n.offered(), 0)
				n.start()
				n.queued()
			}
		})
	})
}

// bubbled keeps rapid from asking for the test's deadline, which a bubble does not allow.
type bubbled struct{ testing.TB }

var errDraining = http.ErrServerClosed

func others(id string) (list []string) {
	for _, name := range []string{"a", "b", "c"} {
		if name != id {
			list = append(list, name)
		}
	}
	return list
}

// heal mends everything and has each node clear up what is in doubt.
func (w *world) heal() {
	for _, n := range w.nodes {
		w.links[n.id] = sound
		n.disk.SetFault(nil)
		n.start()
	}
	for _, n := range w.nodes {
		n.resume(5 * time.Minute)
	}
}

// FuzzBatch: whatever is posted is answered, and what is adopted can be shown and handed on.
func FuzzBatch(f *testing.F) {
	w := newWorld(f, "seed")
	h := store.NewHanded(job.Snapshot{Job: w.job("u")}, []byte("payload"))
	f.Add(encode(f, body{Version: 1, Work: []store.Handed{h}}))
	h.State = job.State{Status: job.Completed, ExpiresAt: 1, Result: &job.Result{Status: 200, Body: []byte("x")}, Attempts: []job.Attempt{{Number: 1}}}
	h.Webhook = job.Webhook{State: job.WebhookPending, DueAt: 5}
	f.Add(encode(f, body{Version: 1, Work: []store.Handed{h}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := newWorld(t, "b").nodes["b"]
		got := n.post(b)
		if got.Code != 200 && got.Code != 400 {
			t.Fatalf("status %d: %s", got.Code, got.Body)
		}
		n.queued()
		for h, err := range n.Unfinished(t.Context()) {
			if err != nil || h.Job.Moves < 2 {
				t.Fatal(h.Job, err)
			}
		}
	})
}

// FuzzAnswer: whatever a peer answers, no job is lost.
func FuzzAnswer(f *testing.F) {
	f.Add(encode(f, map[int]any{1: 1, 2: []byte{1, 2, 3, 4}}))
	f.Add(encode(f, map[int]any{1: 1, 2: []byte{5}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t, "a", "b")
		w.links["b"] = func(func() *http.Response) (*http.Response, error) {
			got := httptest.NewRecorder()
			_, _ = got.Write(b)
			return got.Result(), nil
		}
		a := w.nodes["a"]
		a.add("u", 3)
		r := a.drain(time.Millisecond)
		if n := len(a.unfinished()) + a.offered() + r.Handed; n != 3 {
			t.Fatalf("%+v, and %d of 3 jobs are known", r, n)
		}
	})
}

// TestEveryFieldTravels fills every field of a job and compares what arrives.
func TestEveryFieldTravels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "b")
		b := w.nodes["b"]
		var h store.Handed
		h.Job = w.job("u")
		fill(reflect.ValueOf(&h).Elem())
		h.Job.Request.URL, h.Job.Request.PoolID, h.Job.Request.WebhookURL = "http://t.test/", "", "http://r.test/"
		h.Job.Request.Scope = job.ScopeShared
		h.State.Status, h.State.DueAt, h.Webhook.State = job.Completed, 0, job.WebhookPending
		h.State.Order, h.Webhook.Order = 0, 0
		h.State.ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
		got := b.post(encode(t, body{Version: 1, Work: []store.Handed{h}}))
		w.want(got.Code, 200)
		now, err := b.Get(t.Context(), h.Job.ID)
		b.ok(err)
		if !reflect.DeepEqual(now, h.Snapshot()) {
			t.Errorf("got  %+v\nwant %+v", now, h.Snapshot())
		}
		b.queued()
	})
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("text\xff")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	default:
		v.SetUint(7)
	}
}
