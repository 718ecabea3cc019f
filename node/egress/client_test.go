package egress

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// brokenPipe is a connection whose writes fail, before anything is written, once it is armed.
type brokenPipe struct {
	net.Conn
	armed *atomic.Bool
}

func (c brokenPipe) Write(p []byte) (int, error) {
	if c.armed.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return c.Conn.Write(p)
}

func TestHP01_NothingWrittenIsSentAgainWhole(t *testing.T) {
	bodies := make(chan string, 4)
	url := rawServer(t, func(c *connection) {
		for req, body := c.next(); req != nil; req, body = c.next() {
			bodies <- body
			c.say(okAnswer)
		}
	})
	var armed atomic.Bool
	c := client(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return brokenPipe{conn, &armed}, err
	}})
	large := strings.Repeat("0123456789", 50_000)
	for _, body := range []string{"first", large, "", "last"} {
		status, _, err := exchange(c, request(t, t.Context(), "POST", url, body))
		if status != 200 {
			t.Fatalf("status %d, %v", status, err)
		}
		if got := <-bodies; got != body {
			t.Errorf("target read %d bytes, want %d", len(got), len(body))
		}
		armed.Store(true)
	}
	if len(bodies) != 0 {
		t.Errorf("target read %d more requests", len(bodies))
	}
}

func TestHP01_WhatMayHaveBeenReadIsNotSentAgain(t *testing.T) {
	for _, end := range []struct {
		name string
		how  func(*connection)
	}{
		{"closed", func(c *connection) { _ = c.Close() }},
		{"reset", (*connection).reset},
	} {
		for _, header := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
			for _, body := range []string{"payload", ""} {
				t.Run(end.name+header+body, func(t *testing.T) {
					var reads atomic.Int32
					url := rawServer(t, func(c *connection) {
						for req, _ := c.next(); req != nil; req, _ = c.next() {
							if reads.Add(1) == 2 {
								end.how(c)
								return
							}
							c.say(okAnswer)
						}
					})
					c := client(t, Config{})
					if _, _, err := exchange(c, request(t, t.Context(), "POST", url, "warm up")); err != nil {
						t.Fatal(err)
					}
					req := request(t, t.Context(), "POST", url, body)
					if header != "" {
						req.Header.Set(header, "k")
					}
					_, err := c.Do(req)
					if e := failure(t, err); e.Cause != Closed || !e.Sent {
						t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
					}
					if n := reads.Load(); n != 2 {
						t.Errorf("target read %d requests, want 2", n)
					}
				})
			}
		}
	}
}

func TestHP01_SafeMethodIsSentAgain(t *testing.T) {
	var reads atomic.Int32
	url := rawServer(t, func(c *connection) {
		for req, _ := c.next(); req != nil; req, _ = c.next() {
			if reads.Add(1) == 2 {
				return
			}
			c.say(okAnswer)
		}
	})
	c := client(t, Config{})
	for range 2 {
		if status, _, err := exchange(c, request(t, t.Context(), "GET", url, "")); status != 200 {
			t.Errorf("status %d, %v", status, err)
		}
	}
	if n := reads.Load(); n != 3 {
		t.Errorf("target read %d requests, want 3", n)
	}
}

func TestHP01_CutUploadIsMaybeExecuted(t *testing.T) {
	url := rawServer(t, func(c *connection) {
		if req, _ := c.next(); req != nil {
			c.say(okAnswer)
			_, _ = io.ReadFull(c.r, make([]byte, 100_000))
			c.reset()
		}
	})
	c := client(t, Config{})
	if _, _, err := exchange(c, request(t, t.Context(), "POST", url, "warm up")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(request(t, t.Context(), "POST", url, strings.Repeat("x", 10<<20)))
	if e := failure(t, err); e.Cause != Closed || !e.Sent {
		t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
	}
}

func TestRequestIsSentAsGiven(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	raw := make(chan string, 1)
	url := rawServer(t, func(c *connection) {
		var b bytes.Buffer
		for !strings.HasSuffix(b.String(), "\r\n\r\n") {
			p, err := c.r.ReadByte()
			if err != nil {
				return
			}
			b.WriteByte(p)
		}
		raw <- b.String()
		c.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bno")
	})
	c := client(t, Config{})
	req := request(t, t.Context(), "GET", url+"/p?q=%20a", "")
	req.Header = http.Header{"x-lower": {"1"}, "User-Agent": {""}}
	status, body, err := exchange(c, req)
	if status != 200 || body != "\x1f\x8bno" {
		t.Errorf("answer %d, %q, %v: the body must not be decoded", status, body, err)
	}
	want := "GET /p?q=%20a HTTP/1.1\r\nHost: " + strings.TrimPrefix(url, "http://") + "\r\nx-lower: 1\r\n\r\n"
	if got := <-raw; got != want {
		t.Errorf("target read %q, want %q", got, want)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var accepted atomic.Int32
	url := rawServer(t, func(c *connection) {
		accepted.Add(1)
		for req, _ := c.next(); req != nil; req, _ = c.next() {
			c.say(okAnswer)
		}
	})
	c := client(t, Config{})
	for range 20 {
		if _, _, err := exchange(c, request(t, t.Context(), "POST", url, "x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
	if n := metricValue(t, c.dialer.metrics.connections); n != 1 {
		t.Errorf("gauge of connections is %v", n)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	r := prometheus.NewRegistry()
	if _, err := New(Config{Registerer: r}); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"0 to 5":        {FollowRedirects: 6},
		"secret":        {FollowRedirects: 1},
		`"::/x"`:        {Allow: []string{"::/x"}},
		"duplicate":     {Registerer: r},
		"0 to 5 redire": {FollowRedirects: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New(%+v): %v, want an error with %s", cfg, err, name)
		}
	}
}

func TestUnsendableRequests(t *testing.T) {
	c := client(t, Config{Dial: noDial(t)})
	bad := request(t, t.Context(), "POST", "http://x.test/", "")
	bad.Header.Set("X-Bad", "a\r\nb")
	badTLS := request(t, t.Context(), "POST", "https://x.test/", "")
	badTLS.Header["a b"] = []string{"c"}
	for _, req := range []*http.Request{bad, badTLS, request(t, t.Context(), "GET", "ftp://x.test/", ""), request(t, t.Context(), "GET", "http:///", "")} {
		_, err := c.Do(req)
		if e := failure(t, err); e.Cause != Unsendable || e.Sent {
			t.Errorf("%s: cause %v, sent %v: %v", req.URL, e.Cause, e.Sent, e)
		}
	}
}
