package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// client returns a client that is closed at the end of the test.
func client(t testing.TB, cfg Config) *Client { return path{}.to(t, cfg) }

// path is one of the two ways out: over links, and through net/http's transport.
type path struct {
	server, client *tls.Config // nil: plain HTTP, over links
}

// eachPath runs a test over both ways out.
func eachPath(t *testing.T, test func(t *testing.T, p path)) {
	t.Run("link", func(t *testing.T) { test(t, path{}) })
	t.Run("transport", func(t *testing.T) { test(t, securePath(t)) })
}

func securePath(t testing.TB) path {
	server, client := certificate(t, "target.test")
	server.NextProtos = nil // HTTP/1.1
	return path{server, client}
}

// to returns a client for the path, which is closed at the end of the test.
func (p path) to(t testing.TB, cfg Config) *Client {
	t.Helper()
	if cfg.TLS == nil {
		cfg.TLS = p.client
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// url is that of a host.
func (p path) url(host string) string {
	if p.server == nil {
		return "http://" + host
	}
	return "https://" + host
}

// request is one to a target, with fields given as name, value, name, value.
func request(method, url, body string, field ...string) Request {
	return Request{Method: method, URL: url, Body: []byte(body), Header: func(yield func(name, value string) bool) {
		for pair := range slices.Chunk(field, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}}
}

// fetch sends a request and reads the whole answer.
func fetch(ctx context.Context, c *Client, r Request) (int, string, error) {
	resp, err := c.Do(ctx, r)
	if err != nil {
		return 0, "", err
	}
	body, _, err := ReadBody(resp, -1, nil)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, string(body), nil
}

// failure returns err as an *Error.
func failure(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %#v, want an *Error", err)
	}
	return e
}

// metricValue returns the value of a gauge or counter.
func metricValue(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetGauge().GetValue() + out.GetCounter().GetValue()
}

// connection is one that a rawServer has accepted, the n-th from 1.
type connection struct {
	net.Conn
	n int
	r *bufio.Reader
}

func newConnection(c net.Conn, n int) *connection {
	return &connection{Conn: c, n: n, r: bufio.NewReader(c)}
}

// next reads one request with its body; nil when the client has gone.
func (c *connection) next() (*http.Request, string) {
	req, err := http.ReadRequest(c.r)
	if err != nil {
		return nil, ""
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, ""
	}
	return req, string(body)
}

func (c *connection) say(s string) { _, _ = io.WriteString(c, s) }

// under is the connection below TLS.
func (c *connection) under() net.Conn {
	if secure, ok := c.Conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c.Conn
}

// cut closes the connection without a word of TLS.
func (c *connection) cut() { _ = c.under().Close() }

// reset closes the connection so that the client is told by a TCP reset.
func (c *connection) reset() {
	if tcp, ok := c.under().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.cut()
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// rawServer is a server for plain HTTP.
func rawServer(t testing.TB, handle func(c *connection)) string { return path{}.serve(t, handle) }

// serve serves each connection with handle, which owns it and may misbehave. It returns its URL and ends
// with the test.
func (p path) serve(t testing.TB, handle func(c *connection)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		open    []net.Conn
	)
	running.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				if p.server != nil {
					secure := tls.Server(c, p.server)
					_ = secure.HandshakeContext(t.Context())
					c = secure
				}
				defer func() { _ = c.Close() }()
				handle(newConnection(c, n))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return p.url(l.Addr().String())
}
