package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestEventsOfRequests(t *testing.T) {
	body := jobBody(4)
	at := func(path string, m message) *message {
		m.start = []byte("POST " + path + " HTTP/1.1")
		return &m
	}
	calls := map[string]struct {
		in   *message
		want event
	}{
		"good":         {at("/call/7", message{body: body, job: 9, attempt: 1}), event{kind: called, seq: 7, job: 9, attempt: 1, at: 5}},
		"other body":   {at("/call/7", message{body: []byte("abcx"), job: 9}), event{kind: called, seq: 7, job: 9, flags: altered, at: 5}},
		"no id":        {at("/call/7", message{body: body}), event{kind: called, seq: 7, flags: altered, at: 5}},
		"unknown path": {at("/call/x", message{body: body, job: 9}), event{kind: called, seq: 1<<32 - 1, job: 9, at: 5}},
	}
	for name, tt := range calls {
		if got := callEvent(5, tt.in, body); got != tt.want {
			t.Errorf("call, %s: %+v", name, got)
		}
	}
	const id = `"job_id":"00000000000000000000000000000009"`
	hooks := map[string]struct {
		in   *message
		want event
	}{
		"good":   {at("/webhook/7", message{body: []byte(`{` + id + `,"status":"completed"}`)}), event{kind: delivered, seq: 7, job: 9, at: 5}},
		"failed": {at("/webhook/7", message{body: []byte(`{` + id + `,"status":"failed"}`)}), event{kind: delivered, seq: 7, job: 9, flags: jobFailed, at: 5}},
		"empty":  {at("/webhook/7", message{}), event{kind: delivered, seq: 7, flags: altered | jobFailed, at: 5}},
	}
	for name, tt := range hooks {
		if got := webhookEvent(5, tt.in); got != tt.want {
			t.Errorf("webhook, %s: %+v", name, got)
		}
	}
}

// TestJobThroughTheRelay runs load, relay and both sinks in one process.
func TestJobThroughTheRelay(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	clk, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 50
	body := jobBody(32)
	tokens, l := newTokens(4), newLedger(jobs)
	seen := make(chan event, 10*jobs)
	target := startSink(t, quietly(func(m *message) { seen <- callEvent(clk.now(), m, body) }))
	receiver := startSink(t, quietly(func(m *message) { seen <- webhookEvent(clk.now(), m) }))
	r := newRelay(slog.New(slog.DiscardHandler))
	server := httptest.NewServer(r.routes())
	t.Cleanup(func() {
		server.Close()
		r.jobs.Wait()
		r.out.CloseIdleConnections()
	})
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		for range 2 * jobs {
			if l.observe(<-seen) {
				tokens.put()
			}
		}
	}()
	load := &load{
		form:   form{host: server.Listener.Addr().String(), targets: []string{target}, receiver: receiver, tenants: 3, body: body},
		ledger: l, clk: clk, arrivals: newClosedLoop(clk, tokens, 0, jobs), conns: 4,
	}
	if err := load.run(t.Context()); err != nil {
		t.Error(err)
	}
	<-observed
	if got := l.tally(nil); got != (tally{Jobs: jobs, Accepted: jobs}) {
		t.Errorf("%+v", got)
	}
	if s := l.stages(0, jobs); s.accepted != jobs || s.delivered != jobs || s.throughput() <= 0 {
		t.Errorf("accepted %d, delivered %d", s.accepted, s.delivered)
	}
}

func startSink(t *testing.T, reply func(*message) []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, ln, reply) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestLoadCountsRefusals(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	l := newLedger(5)
	load := &load{
		form:   form{host: server.Listener.Addr().String(), targets: []string{"127.0.0.1:9"}, tenants: 1},
		ledger: l, arrivals: newClosedLoop(clock{mark: time.Now()}, newTokens(2), 0, 5), conns: 2,
	}
	if err := load.run(t.Context()); err == nil {
		t.Error("no refusal")
	}
	if got := l.tally(nil); got != (tally{Jobs: 5, Refused: 5}) {
		t.Errorf("%+v", got)
	}
}

// TestLoadAsksAgain meets a server that breaks the connection, refuses, and then knows the job already.
func TestLoadAsksAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			writeJSON(w, http.StatusOK, map[string]string{"job_id": "00000000000000000000000000000005", "duplicate": "true"})
		}
	}))
	defer server.Close()
	l := newLedger(1)
	load := &load{
		form:   form{host: server.Listener.Addr().String(), targets: []string{"127.0.0.1:9"}, tenants: 1},
		ledger: l, arrivals: newClosedLoop(clock{mark: time.Now()}, nil, 0, 1), conns: 1, again: time.Millisecond,
	}
	if err := load.run(t.Context()); err != nil {
		t.Error(err)
	}
	if got := l.tally(nil); got.Accepted != 1 || got.Refused != 0 || got.Retried != 2 || l.entries[0].job != 5 {
		t.Errorf("%+v", got)
	}
}

func TestConnBreaksWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // never answers
	ctx, cancel := context.WithCancel(t.Context())
	c := &conn{addr: ln.Addr().String()}
	ended := make(chan error)
	go func() {
		_, err := c.exchange(ctx, []byte("GET / HTTP/1.1\r\n\r\n"))
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
}
