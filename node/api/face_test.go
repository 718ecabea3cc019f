package api_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a node behind its face: an intake that answers as told, jobs in memory, and a real hub.
type fake struct {
	submit    func(context.Context, intake.Submission) (intake.Receipt, error)
	redrive   func(context.Context, job.ID) (intake.Receipt, error)
	redeliver func(context.Context, job.ID) error
	list      func(context.Context, store.Query) (store.Page, error)
	standing  func(context.Context, job.Entry) (api.Standing, bool, error)
	draining  bool
	notReady  error
	health    api.Health
	wait      time.Duration
	hub       *events.Hub
	registry  *prometheus.Registry
	log       *slog.Logger

	reserved atomic.Int64
	memory   int64 // that bodies may have; 0: any

	mu   sync.Mutex // guards jobs, which tests change while streams read
	jobs map[job.ID]job.Snapshot
	gets int
	err  error // what reading jobs fails with
}

func newFake() *fake {
	return &fake{
		hub:      events.New(events.Config{Wait: 2 * time.Second}),
		jobs:     make(map[job.ID]job.Snapshot),
		registry: prometheus.NewRegistry(),
		log:      slog.New(slog.DiscardHandler),
		wait:     5 * time.Second,
		standing: func(context.Context, job.Entry) (api.Standing, bool, error) { return api.Standing{}, false, nil },
		submit: func(context.Context, intake.Submission) (intake.Receipt, error) {
			return intake.Receipt{ID: idOf(1), Status: job.Queued, Durability: store.Flush}, nil
		},
	}
}

func (f *fake) Submit(ctx context.Context, s intake.Submission) (intake.Receipt, error) {
	return f.submit(ctx, s)
}
func (f *fake) Redrive(ctx context.Context, id job.ID) (intake.Receipt, error) {
	return f.redrive(ctx, id)
}
func (f *fake) Redeliver(ctx context.Context, id job.ID) error { return f.redeliver(ctx, id) }
func (f *fake) List(ctx context.Context, q store.Query) (store.Page, error) {
	return f.list(ctx, q)
}

func (f *fake) Get(_ context.Context, id job.ID) (job.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets++
	s, ok := f.jobs[id]
	switch {
	case f.err != nil:
		return s, f.err
	case !ok:
		return s, store.ErrNotFound
	}
	return s, nil
}

func (f *fake) Reserve(bytes int64) error {
	if n := f.reserved.Add(bytes); f.memory > 0 && n > f.memory {
		f.reserved.Add(-bytes)
		e := fault.New(fault.Overloaded, "memory is over its limit")
		e.Limit = &fault.Limit{Reason: "memory", Limit: f.memory, Current: n}
		return e
	}
	return nil
}

func (f *fake) Release(bytes int64) { f.reserved.Add(-bytes) }

// put stores a job as it is now.
func (f *fake) put(s job.Snapshot) job.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[s.Job.ID] = s
	return s
}

// handler returns the face of the fake, after edit had its say.
func (f *fake) handler(edit ...func(*api.Config)) http.Handler {
	c := api.Config{
		Intake: f, Jobs: f, Hub: f.hub,
		Standing:     func(ctx context.Context, e job.Entry) (api.Standing, bool, error) { return f.standing(ctx, e) },
		Draining:     func() bool { return f.draining },
		Ready:        func() error { return f.notReady },
		Health:       func() api.Health { return f.health },
		RetryAfter:   func() time.Duration { return f.wait },
		MaxBodyBytes: 1 << 20, Memory: f,
		Logger: f.log, Registerer: f.registry,
	}
	for _, e := range edit {
		e(&c)
	}
	return api.New(c)
}

// client returns a client of the face.
func (f *fake) client(t *testing.T, edit ...func(*api.Config)) *client.Client {
	t.Helper()
	return clientOf(t, client.InProcess(f.handler(edit...)))
}

func clientOf(t *testing.T, rt http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New("http://node", rt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// idOf is the id of the n-th test job; later ones are newer.
func idOf(n byte) job.ID { return job.ID{0: 1, 5: n, 15: n} }

// queuedJob is a job that waits at the given place of its lane.
func queuedJob(n byte, order job.Order) job.Snapshot {
	return job.Snapshot{
		Job: &job.Job{
			ID: idOf(n), CreatedAt: 1000,
			Request: job.Request{
				UserID: "u", KeyName: "k", URL: "http://target.example:81/x", Method: "POST",
				WebhookURL: "http://receiver.example/hook", MaxRetries: 4, TimeoutMS: job.UnsetTimeout,
			},
		},
		State: job.State{Order: order},
	}
}

// ended is the job s after attempt one, which brought an answer.
func ended(s job.Snapshot, r job.Result) job.Snapshot {
	s.State, _ = s.State.Begin(1)
	s.State, _ = s.State.Finish(job.End{
		Status: job.Completed, At: 3000, Keep: 1000, Result: &r,
		Last: &job.Attempt{Number: 1, StartedAt: 2000, DurationMS: 1000, Status: r.Status},
	})
	s.Webhook = job.Webhook{State: job.WebhookPending}
	return s
}

// valid is a job that passes every check.
const valid = `{"user_id":"u","idempotent_key":"k","url":"http://target.example/","method":"post","webhook_url":"http://receiver.example/"}`

// network is a listener in memory, for servers and clients inside and outside of bubbles.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newNetwork() *network {
	return &network{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.conns <- far:
		return near, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve runs a server with the limits of the face over a network in memory until the test ends.
func serve(t *testing.T, h http.Handler) *network {
	t.Helper()
	n := newNetwork()
	srv := api.NewServer(h, slog.New(slog.DiscardHandler))
	done := make(chan error)
	go func() { done <- srv.Serve(n) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return n
}

// transport returns a client's side of a network; h2 speaks HTTP/2 without TLS.
func transport(t *testing.T, n *network, h2 bool) *http.Transport {
	t.Helper()
	tr := &http.Transport{DialContext: n.dial, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// ask sends one request and returns the answer with its whole body.
func ask(t *testing.T, rt http.RoundTripper, method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://node"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Add(pair[0], pair[1])
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}
