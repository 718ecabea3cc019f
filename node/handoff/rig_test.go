package handoff_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// node is a store with queues that do not run, and both ends of a hand-off.
type node struct {
	id   string
	w    *world
	disk *storetest.Disk
	store.Store
	calls, deliveries *queue.Queue
	holds             *handoff.Holds
	registry          *prometheus.Registry
	giver             *handoff.Giver
	taker             *handoff.Taker
	beforeKeep        func()      // happens once, between the giver's decision and the store's
	unread            func() bool // whether the offers cannot be read now; nil: they can
	full              error       // why it takes nothing; guarded by the world's mutex, as is woken
	woken             []time.Time // by what comes due
	reads             int         // of all that is unfinished, by the giver
}

// link is what happens to the requests to a node.
type link func(deliver func() *http.Response) (*http.Response, error)

var errCut = errors.New("the link is cut")

func sound(deliver func() *http.Response) (*http.Response, error) { return deliver(), nil }

// lost loses requests, mute loses answers, twice delivers twice.
func lost(func() *http.Response) (*http.Response, error) { return nil, errCut }

func mute(deliver func() *http.Response) (*http.Response, error) {
	_ = deliver().Body.Close()
	return nil, errCut
}

func twice(deliver func() *http.Response) (*http.Response, error) {
	_ = deliver().Body.Close()
	return deliver(), nil
}

func undialed(func() *http.Response) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errCut}
}

func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func status(code int) link {
	return func(func() *http.Response) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.WriteHeader(code)
		return w.Result(), nil
	}
}

// first has one link for the first request and another one for the rest.
func first(one, rest link) link {
	var once sync.Once
	return func(deliver func() *http.Response) (got *http.Response, err error) {
		use := rest
		once.Do(func() { use = one })
		return use(deliver)
	}
}

// world is some nodes and the links to them.
type world struct {
	t  testing.TB
	mu sync.Mutex // guards all below
	// nodes and links are by id; owners are the ids of who may own something, the first one that is not out.
	nodes  map[string]*node
	links  map[string]link
	unfit  map[string]string // what a node cannot read; empty: it reads all
	owners func(j *job.Job) []string
	out    map[string]bool // those that own nothing
	alone  bool            // nobody else takes work
	sent   map[string]int  // requests, by who they were for
	next   uint64
}

func newWorld(t testing.TB, names ...string) *world {
	w := &world{
		t: t, nodes: map[string]*node{}, links: map[string]link{}, unfit: map[string]string{}, out: map[string]bool{}, sent: map[string]int{},
		owners: func(*job.Job) []string { return []string{"b"} },
	}
	for _, name := range names {
		n := &node{id: name, w: w, disk: storetest.NewDisk(t)}
		w.nodes[name], w.links[name] = n, sound
		n.start()
	}
	return w
}

// start opens the store, as a new process does.
func (n *node) start() {
	var err error
	if n.Store, err = n.disk.Open(); err != nil {
		n.w.t.Fatal(err)
	}
	n.refuse(nil)
	n.calls, n.deliveries = n.queue(job.Calls), n.queue(job.Deliveries)
	for line, q := range map[job.Line]*queue.Queue{job.Calls: n.calls, job.Deliveries: n.deliveries} {
		for e, err := range n.Waiting(n.w.t.Context(), line) {
			if err != nil {
				n.w.t.Fatal(err)
			}
			q.Restore(e)
		}
	}
	for d, err := range n.Pending(n.w.t.Context()) {
		if err != nil {
			n.w.t.Fatal(err)
		}
		if d.Kind == store.DueCall {
			n.calls.RestoreWaiting(d.Lane, d.ID)
		} else {
			n.deliveries.RestoreWaiting(d.Lane, d.ID)
		}
	}
	lines := handoff.Lines{Calls: n.calls, Deliveries: n.deliveries, Wake: n.wake}
	log := slog.New(slog.DiscardHandler)
	n.holds, n.registry = handoff.NewHolds(), prometheus.NewRegistry()
	metrics := handoff.NewMetrics(n.registry)
	n.giver, err = handoff.NewGiver(handoff.GiverConfig{
		Store: n, Unfinished: n.counted, Peers: n.w, Lines: lines, Backlog: n.backlog, Holds: n.holds, Metrics: metrics, Transport: n.w, Unsent: unsent, BatchJobs: 4, Logger: log,
		Sign: func(r *http.Request, _ string, _ []byte) { r.Header.Set("Peer", n.id) },
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.taker, err = handoff.NewTaker(handoff.TakerConfig{
		Store: n, Lines: lines, MaxBytes: 1 << 20, Metrics: metrics, Logger: log,
		FromPeer: func(r *http.Request) bool { return r.Header.Get("Peer") != "" },
		Room: func(int64) error {
			n.w.mu.Lock()
			defer n.w.mu.Unlock()
			return n.full
		},
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
}

// counted is store.HandOff.Unfinished, and counts how often the giver reads everything.
func (n *node) counted(ctx context.Context) iter.Seq2[store.Handed, error] {
	n.reads++
	return n.Unfinished(ctx)
}

// Keep is store.HandOff.Keep.
func (n *node) Keep(ctx context.Context, peer string, work []store.Handed) ([]store.Handed, error) {
	if f := n.beforeKeep; f != nil {
		n.beforeKeep = nil
		f()
	}
	return n.Store.Keep(ctx, peer, work)
}

// Offers is store.HandOff.Offers.
func (n *node) Offers(ctx context.Context) iter.Seq2[store.Offered, error] {
	if n.unread != nil && n.unread() {
		return func(yield func(store.Offered, error) bool) { yield(store.Offered{}, storetest.ErrDisk) }
	}
	return n.Store.Offers(ctx)
}

// refuse has the node take nothing, for a reason; nil lets it take work again.
func (n *node) refuse(reason error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.full = reason
}

func (n *node) wake(at time.Time) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.woken = append(n.woken, at)
}

func (n *node) queue(l job.Line) *queue.Queue {
	return queue.New(queue.Config{
		Line: l, Backlog: n.Store, Settings: func(string) pace.Settings { return pace.Settings{RPS: 1000, MaxConcurrent: 1000} },
	})
}

// Owner is handoff.Peers.
func (w *world) Owner(_ context.Context, j *job.Job, tried []string) (handoff.Peer, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.owners(j) {
		if !w.out[id] && !slices.Contains(tried, id) {
			return handoff.Peer{ID: id, Address: "http://" + id}, true
		}
	}
	return handoff.Peer{}, false
}

// Anybody is handoff.Peers.
func (w *world) Anybody() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.alone
}

// Member is handoff.Peers.
func (w *world) Member(id string) (handoff.Peer, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.nodes[id]
	return handoff.Peer{ID: id, Address: "http://" + id}, ok
}

// RoundTrip is http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	n, l := w.nodes[r.URL.Host], w.links[r.URL.Host]
	w.sent[r.URL.Host]++
	unfit := w.unfit[r.URL.Host]
	w.mu.Unlock()
	if text, _ := r.GetBody(); unfit != "" && contains(text, unfit) {
		l = status(http.StatusBadRequest)
	}
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return l(func() *http.Response {
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body, _ = r.GetBody()
		got := httptest.NewRecorder()
		n.taker.ServeHTTP(got, again)
		return got.Result()
	})
}

func contains(r io.Reader, part string) bool {
	text, _ := io.ReadAll(r)
	return bytes.Contains(text, []byte(part))
}

// job returns a job of a user that is not stored yet.
func (w *world) job(user string) *job.Job {
	w.next++
	now := time.Now()
	j := &job.Job{
		Request: job.Request{
			UserID: user, KeyName: fmt.Sprintf("key-%d", w.next), URL: "http://target.test/path", Method: "POST",
			Body: []byte{0xff, 0}, WebhookURL: "http://receiver.test/hook", TimeoutMS: job.UnsetTimeout, MaxRetries: 4,
			Headers: []job.Header{{Name: "X-Latin", Value: "caf\xe9"}},
		},
		CreatedAt: now.UnixMilli(), Deadline: now.Add(24 * time.Hour).UnixMilli(),
	}
	binary.BigEndian.PutUint64(j.ID[:8], uint64(now.UnixMilli())<<16)
	binary.BigEndian.PutUint64(j.ID[8:], w.next)
	return j
}

func (n *node) ok(err error) {
	n.w.t.Helper()
	if err != nil {
		n.w.t.Fatal(err)
	}
}

// add stores so many jobs of a user, of each kind in turn: new, waiting for a retry, owed. They are known to
// the queues after the next start.
func (n *node) add(user string, jobs int) {
	ctx, t := n.w.t.Context(), n.w.t
	t.Helper()
	for i := range jobs {
		j := n.w.job(user)
		in, err := n.Insert(ctx, j, store.Default)
		n.ok(err)
		if i%3 == 0 {
			continue
		}
		st, _ := job.State{Order: in.Entry.Order}.Begin(1)
		n.ok(n.Begin(ctx, in.Entry, st, time.Now()))
		if i%3 == 1 {
			st, _ = st.Retry(job.Attempt{Number: 1, Status: 503}, time.Now().Add(time.Hour).UnixMilli())
			n.ok(n.Retry(ctx, in.Entry, st))
			continue
		}
		st, _ = st.Finish(job.End{
			Status: job.Completed, At: time.Now().UnixMilli(), Keep: time.Hour.Milliseconds(), Last: &job.Attempt{Number: 1, Status: 200},
			Result: &job.Result{Status: 200, Body: []byte("wh"), Truncated: true},
		})
		_, err = n.Finish(ctx, store.Finish{Job: j, Next: st, Payload: []byte("whole")})
		n.ok(err)
	}
	n.start()
}

// unfinished counts the jobs that stand in places of a node, by id, and checks that the queues know them.
func (n *node) unfinished() map[job.ID]int {
	n.w.t.Helper()
	all := map[job.ID]int{}
	for h, err := range n.Unfinished(n.w.t.Context()) {
		n.ok(err)
		all[h.Job.ID]++
	}
	return all
}

// queued expects that the queues count what stands in the store.
func (n *node) queued() {
	n.w.t.Helper()
	if got, want := n.backlog(), len(n.unfinished()); got != want {
		n.w.t.Errorf("the queues of %s count %d jobs, the store has %d", n.id, got, want)
	}
}

func (n *node) backlog() int { return n.calls.Stats().Backlog + n.deliveries.Stats().Backlog }

func (n *node) offered() (jobs int) {
	n.w.t.Helper()
	for _, err := range n.Store.Offers(n.w.t.Context()) {
		n.ok(err)
		jobs++
	}
	return jobs
}

// over says that nothing is open.
func over() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// drain hands over within a time.
func (n *node) drain(limit time.Duration) handoff.Report {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(n.w.t.Context(), limit)
	defer cancel()
	r, err := n.giver.Drain(ctx, over())
	n.ok(err)
	return r
}

func (w *world) want(got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("got %+v, want %+v", got, want)
	}
}

// resume clears up what is in doubt within a time.
func (n *node) resume(limit time.Duration) {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(n.w.t.Context(), limit)
	defer cancel()
	n.ok(n.giver.Resume(ctx))
}
