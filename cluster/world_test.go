package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

// world is a fleet of nodes that do nothing but forward and answer, on a network of pipes.
type world struct {
	t      *testing.T
	fleet  *clustertest.Fleet
	nodes  map[string]*host
	client *http.Transport
}

// host is one node. Its handler answers what is its own to answer.
//
// mu guards all below it.
type host struct {
	id        string
	world     *world
	owners    *cluster.Owners
	forwarder *cluster.Forwarder
	registry  *prometheus.Registry
	transport *http.Transport
	accepted  chan net.Conn
	closed    chan struct{}
	once      sync.Once
	stop      func()

	mu sync.Mutex
	// dial is what becomes of connections to the host; nil for a pipe to it.
	dial    func(ctx context.Context) error
	handler http.HandlerFunc
	front   http.Handler // who answers in place of the node; nil for nobody
	until   time.Time    // when it answers again
	severed bool
	dials   int
	conns   []net.Conn
	taken   []string // the bodies of the requests that it answered itself
	seen    int      // requests that reached it
}

// inWorld runs a test with n nodes in a bubble.
func inWorld(t *testing.T, n int, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorldOf(t, n, nil, test)
}

// inWorldOf does so with nodes that are built in another way.
func inWorldOf(t *testing.T, n int, change func(id string, c *cluster.ForwarderConfig), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, fleet: clustertest.NewFleet(clustertest.Nodes(n)...), nodes: make(map[string]*host)}
		w.client = w.transport("")
		for _, m := range clustertest.Nodes(n) {
			w.start(m.ID, change)
		}
		defer w.close()
		test(t, w)
	})
}

func (w *world) start(id string, change func(id string, c *cluster.ForwarderConfig)) {
	h := &host{id: id, world: w, accepted: make(chan net.Conn), closed: make(chan struct{}), registry: prometheus.NewPedanticRegistry()}
	h.owners = cluster.NewOwners(cluster.OwnersConfig{View: w.fleet.View(id)})
	h.transport = w.transport(id)
	c := cluster.ForwarderConfig{
		Owners: h.owners, Transport: h.transport, Logger: slog.New(slog.DiscardHandler), Registerer: h.registry,
	}
	c.Seal, _ = cluster.NewSeal(id, "a secret that all nodes share")
	if change != nil {
		change(id, &c)
	}
	if c.Owners == nil { // it is to heed what the others say of its seal
		h.owners = cluster.NewOwners(cluster.OwnersConfig{View: w.fleet.View(id), Sealed: true})
		c.Owners = h.owners
	}
	h.forwarder = cluster.NewForwarder(c)
	gate := cluster.NewGate(http.HandlerFunc(h.serve), cluster.GateConfig{Seal: c.Seal, MaxBodyBytes: 8 << 20, Logger: c.Logger, Registerer: h.registry})
	srv := &http.Server{Handler: h.facing(gate), ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(listener{h}) }()
	h.stop = func() {
		_ = srv.Close()
		h.transport.CloseIdleConnections()
		<-done
	}
	w.nodes[id] = h
}

func (w *world) close() {
	w.client.CloseIdleConnections()
	for _, h := range w.nodes {
		h.stop()
	}
}

type listener struct{ *host }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: l.id} }

// transport is that of the node of this id, or of a client.
func (w *world) transport(string) *http.Transport {
	return &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			name, _, _ := strings.Cut(address, ":")
			h := w.nodes[name]
			if h == nil {
				return nil, errors.New("there is no host " + name)
			}
			return h.connect(ctx)
		},
	}
}

func (h *host) connect(ctx context.Context) (net.Conn, error) {
	h.mu.Lock()
	h.dials++
	dial := h.dial
	h.mu.Unlock()
	if dial != nil {
		return nil, dial(ctx)
	}
	near, far := net.Pipe()
	h.mu.Lock()
	h.conns = append(h.conns, far)
	h.mu.Unlock()
	select {
	case h.accepted <- far:
		return &wire{Conn: near, host: h}, nil
	case <-h.closed:
		return nil, errRefused
	}
}

// wire is the near end of a connection to a host.
type wire struct {
	net.Conn
	host *host
}

// Write takes nothing once the host is severed: a router on the way has answered that there is no way.
func (w *wire) Write(b []byte) (int, error) {
	w.host.mu.Lock()
	severed := w.host.severed
	w.host.mu.Unlock()
	if severed {
		return 0, errRefused
	}
	return w.Conn.Write(b)
}

// sever makes the host one that cannot be written to any more, and that nothing is heard of.
func (h *host) sever() {
	h.setDial(refuse)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.severed = true
}

var errRefused = errors.New("connection refused")

func refuse(context.Context) error { return errRefused }

func hang(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (h *host) setDial(dial func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dial = dial
}

// kill ends the node for the network: its connections break and there are no new ones.
func (h *host) kill() {
	h.setDial(refuse)
	h.mu.Lock()
	conns := h.conns
	h.conns = nil
	h.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

func (h *host) answerWith(f http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handler = f
}

// serve is how a node's face uses a forwarder. The header X-Tenant is the routing key.
func (h *host) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen++
	handler := h.handler
	h.mu.Unlock()
	if r.URL.Path == "/ready" {
		if h.owners.Unsettled() != nil || h.owners.Status().State != cluster.Active {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := cluster.Call{Key: r.Header.Get("X-Tenant"), Body: body, Header: cluster.Carried(r.Header)}
	c.Header.Set("X-Tenant", c.Key)
	c.Since, _ = time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	w.Header().Set("X-Twice", "from "+h.id)
	if strings.HasPrefix(r.URL.Path, "/held/") {
		likely := func(id string) bool { return "/held/"+id == r.URL.Path }
		if handler == nil && h.forwarder.ToHolder(w, r, c, likely) != 0 {
			return
		}
	} else if h.forwarder.ToOwner(w, r, c) != 0 {
		return
	}
	h.mu.Lock()
	h.taken = append(h.taken, string(body))
	h.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case strings.HasPrefix(r.URL.Path, "/held/"):
		http.NotFound(w, r)
	default:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, h.id)
	}
}

// reply is an answer as a client got it.
type reply struct {
	*http.Response
	body string
	err  error // of reading the body
}

// post sends a job of a tenant to a node.
func (w *world) post(to, tenant, body string) reply {
	w.t.Helper()
	return w.do(http.MethodPost, "http://"+to+"/jobs", tenant, body)
}

func (w *world) do(method, url, tenant, body string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-Tenant", tenant)
	return w.send(req)
}

func (w *world) send(req *http.Request) reply {
	w.t.Helper()
	resp, err := w.client.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return reply{resp, string(text), err}
}

// ranked are the ids of the nodes in the order in which they may own a tenant, as node-0 sees it.
func (w *world) ranked(tenant string) []string {
	return ids(cluster.Rank(w.fleet.View("node-0").Roster().Members, tenant))
}

// of returns a tenant whose ranking begins with these ids.
func (w *world) of(first ...string) string {
	w.t.Helper()
	for i := range 10_000 {
		if slices.Equal(w.ranked(tenant(i))[:len(first)], first) {
			return tenant(i)
		}
	}
	w.t.Fatalf("no tenant has %v", first)
	return ""
}

// takers are the nodes that answered a request of that body themselves, each as often as it did.
func (w *world) takers(body string) []string {
	var list []string
	for id, h := range w.nodes {
		h.mu.Lock()
		for _, b := range h.taken {
			if b == body {
				list = append(list, id)
			}
		}
		h.mu.Unlock()
	}
	slices.Sort(list)
	return list
}

func (h *host) count(what *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *what
}

// result is how many requests a node's forwarder has counted under that result.
func (h *host) result(name string) float64 { return h.counter("aquifer_cluster_forwards_total", name) }

// counter is the value of the series of that label.
func (h *host) counter(family, label string) float64 {
	synctest.Wait() // for what is counted after its answer
	families, err := h.registry.Gather()
	if err != nil {
		h.world.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == family && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	h.world.t.Fatalf("%s has no series %s", family, label)
	return 0
}

// refused checks an answer that a forwarder gave itself, and returns its body.
func (r reply) refused(t *testing.T, status int) (body struct {
	Error string   `json:"error"`
	Owner string   `json:"owner_id"`
	Tried []string `json:"tried_owner_ids"`
}) {
	t.Helper()
	if r.StatusCode != status || r.err != nil {
		t.Fatalf("got %d %s, %v, want %d", r.StatusCode, r.body, r.err, status)
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Error == "" || !strings.HasSuffix(r.body, "\n") {
		t.Errorf("%v in %q", err, r.body)
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
	if ra := r.Header["Retry-After"]; len(ra) != 1 || ra[0] != "1" {
		t.Errorf("Retry-After %q", ra)
	}
	return body
}

func (w *world) took(body string, want ...string) {
	w.t.Helper()
	if got := w.takers(body); !slices.Equal(got, want) {
		w.t.Errorf("taken by %v, want %v", got, want)
	}
}

// elapsed returns how long f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
