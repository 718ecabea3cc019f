package cluster_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// events streams one event each time that it is told to, until the client leaves.
func events(next <-chan string, gone chan<- struct{}) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		defer close(gone)
		rw.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(rw)
		_ = rc.Flush()
		for {
			select {
			case e, more := <-next:
				if !more {
					return
				}
				_, _ = io.WriteString(rw, "data: "+e+"\n\n")
				_ = rc.Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func (w *world) open(ctx context.Context, url, tenant string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-Tenant", tenant)
	resp, err := w.client.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func TestStreamsAreRelayedAsTheyCome(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { inWorld(t, 2, relayed) })
	t.Run("HTTP/2", func(t *testing.T) {
		inWorld(t, 2, func(t *testing.T, w *world) {
			w.client.Protocols = new(http.Protocols)
			w.client.Protocols.SetUnencryptedHTTP2(true)
			relayed(t, w)
		})
	})
	// A transport may find that it has written a request when the answer has begun.
	t.Run("written late", func(t *testing.T) {
		change := func(_ string, c *cluster.ForwarderConfig) {
			under := c.Transport
			c.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := under.RoundTrip(r)
				time.AfterFunc(time.Second, func() { httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{}) })
				return resp, err
			})
		}
		inWorldOf(t, 2, change, relayed)
	})
}

func relayed(t *testing.T, w *world) {
	next, gone := make(chan string), make(chan struct{})
	w.nodes["node-1"].answerWith(events(next, gone))
	resp := w.open(t.Context(), "http://node-0/jobs/x/stream", w.of("node-1"))
	lines := bufio.NewScanner(resp.Body)
	for _, e := range []string{"a", "b", "c"} {
		time.Sleep(time.Minute) // longer than any timeout
		select {
		case next <- e:
		case <-gone:
			t.Fatal("the stream was cut")
		}
		if !lines.Scan() || lines.Text() != "data: "+e || !lines.Scan() {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
	}
	close(next)
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("at the end: %q, %v", lines.Text(), lines.Err())
	}
	<-gone
}

func TestClientsThatLeaveAreNotWaitedFor(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		key := w.of("node-1")
		next, gone := make(chan string), make(chan struct{})
		w.nodes["node-1"].answerWith(events(next, gone))
		ctx, cancel := contextOf(t)
		resp := w.open(ctx, "http://node-0/jobs/x/stream", key)
		cancel()
		<-gone
		_ = resp.Body.Close()

		left := make(chan struct{})
		w.nodes["node-1"].answerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(left) })
		ctx, cancel = contextOf(t)
		time.AfterFunc(time.Second, cancel)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://node-0/jobs", http.NoBody)
		req.Header.Set("X-Tenant", key)
		if _, err := w.client.RoundTrip(req); err == nil {
			t.Error("the client did not leave")
		}
		<-left
		time.Sleep(time.Second)
		if got := w.nodes["node-0"].result("gone"); got != 2 {
			t.Errorf("%v are counted", got)
		}
		if got := w.nodes["node-0"].result("broken") + w.nodes["node-0"].result("unanswered"); got != 0 {
			t.Errorf("%v are held against the owner", got)
		}
	})
}

// A client that does not read holds up the owner's writing, not this node's memory, and not for ever.
func TestClientsThatDoNotRead(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var sent atomic.Int64
		ended := make(chan time.Time, 1)
		w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
			for {
				n, err := rw.Write(make([]byte, 1<<10))
				sent.Add(int64(n))
				if err != nil {
					ended <- time.Now()
					return
				}
			}
		})
		start := time.Now()
		conn := w.raw("node-0", "GET /jobs/x/stream HTTP/1.1\r\nHost: node-0\r\nX-Tenant: "+w.of("node-1")+"\r\n\r\n")
		defer conn.Close()
		if took := (<-ended).Sub(start); took != 30*time.Second {
			t.Errorf("the owner was held up for %v", took)
		}
		if n := sent.Load(); n > 256<<10 {
			t.Errorf("the owner could send %d bytes that nobody read", n)
		}
		if got := w.nodes["node-0"].result("gone"); got != 1 {
			t.Errorf("%v are counted", got)
		}
	})
}

// raw sends a request to a node on a connection of its own.
func (w *world) raw(to, request string) net.Conn {
	w.t.Helper()
	conn, err := w.nodes[to].connect(w.t.Context())
	if err == nil {
		_, err = io.WriteString(conn, request)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func TestSlowReadersGetItAll(t *testing.T) {
	inWorldOf(t, 2, func(_ string, c *cluster.ForwarderConfig) { c.WriteTimeout = 10 * time.Second }, func(t *testing.T, w *world) {
		large := strings.Repeat("0123456789abcdef", 1<<14)
		w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, large) })
		resp := w.open(t.Context(), "http://node-0/jobs/x", w.of("node-1"))
		defer resp.Body.Close()
		var got strings.Builder
		for {
			time.Sleep(time.Second)
			if _, err := io.CopyN(&got, resp.Body, 8<<10); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != large {
			t.Errorf("%d of %d bytes", got.Len(), len(large))
		}
	})
}
