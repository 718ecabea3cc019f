package egress

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
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
	eachPath(t, func(t *testing.T, p path) {
		bodies := make(chan string, 4)
		url := p.serve(t, func(c *connection) {
			for req, body := c.next(); req != nil; req, body = c.next() {
				bodies <- body
				c.say(okAnswer)
			}
		})
		var armed atomic.Bool
		c := p.to(t, Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, address)
			return brokenPipe{conn, &armed}, err
		}})
		large := strings.Repeat("0123456789", 50_000)
		for _, body := range []string{"first", large, "", "last"} {
			status, _, err := fetch(t.Context(), c, request("POST", url, body))
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
	})
}

func TestHP01_WhatMayHaveBeenReadIsNotSentAgain(t *testing.T) {
	ends := map[string]func(*connection){
		"closed": func(c *connection) { _ = c.Close() },
		"reset":  (*connection).reset,
	}
	eachPath(t, func(t *testing.T, p path) {
		for name, end := range ends {
			for _, field := range [][]string{nil, {"Idempotency-Key", "k"}, {"X-Idempotency-Key", "k"}} {
				for _, body := range []string{"payload", ""} {
					t.Run(name+strings.Join(field, "")+body, func(t *testing.T) {
						testNotSentAgain(t, p, end, func(url string) Request { return request("POST", url, body, field...) })
					})
				}
			}
		}
	})
}

func testNotSentAgain(t *testing.T, p path, end func(*connection), second func(url string) Request) {
	var reads atomic.Int32
	url := p.serve(t, func(c *connection) {
		for req, _ := c.next(); req != nil; req, _ = c.next() {
			if reads.Add(1) == 2 {
				end(c)
				return
			}
			c.say(okAnswer)
		}
	})
	c := p.to(t, Config{})
	if _, _, err := fetch(t.Context(), c, request("POST", url, "warm up")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(t.Context(), second(url))
	if e := failure(t, err); e.Cause != Closed || !e.Sent {
		t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
	}
	if n := reads.Load(); n != 2 {
		t.Errorf("target read %d requests, want 2", n)
	}
}

// A target that closes every connection on which it is asked again is asked twice, however many there are.
func TestHP01_SafeMethodIsSentAgainOnce(t *testing.T) {
	const kept = 4
	eachPath(t, func(t *testing.T, p path) {
		var reads atomic.Int32
		together := make(chan struct{})
		url := p.serve(t, func(c *connection) {
			if req, _ := c.next(); req == nil {
				return
			}
			if reads.Add(1) == kept {
				close(together)
			}
			<-together // so each of the first has a connection of its own
			c.say(okAnswer)
			if req, _ := c.next(); req != nil {
				reads.Add(1)
			}
		})
		c := p.to(t, Config{})
		var all sync.WaitGroup
		for range kept {
			all.Go(func() {
				if status, _, err := fetch(t.Context(), c, request("GET", url, "")); status != 200 {
					t.Errorf("status %d, %v", status, err)
				}
			})
		}
		all.Wait()
		_, err := c.Do(t.Context(), request("GET", url, ""))
		if e := failure(t, err); e.Cause != Closed || !e.Sent {
			t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
		}
		if n := reads.Load(); n != kept+2 {
			t.Errorf("target read %d requests, want %d", n, kept+2)
		}
	})
}

func TestHP01_SafeMethodIsSentAgain(t *testing.T) {
	eachPath(t, func(t *testing.T, p path) {
		var reads atomic.Int32
		url := p.serve(t, func(c *connection) {
			for req, _ := c.next(); req != nil; req, _ = c.next() {
				if reads.Add(1) == 2 {
					return
				}
				c.say(okAnswer)
			}
		})
		c := p.to(t, Config{})
		for range 2 {
			if status, _, err := fetch(t.Context(), c, request("GET", url, "")); status != 200 {
				t.Errorf("status %d, %v", status, err)
			}
		}
		if n := reads.Load(); n != 3 {
			t.Errorf("target read %d requests, want 3", n)
		}
	})
}

func TestHP01_CutUploadIsMaybeExecuted(t *testing.T) {
	eachPath(t, func(t *testing.T, p path) {
		url := p.serve(t, func(c *connection) {
			if req, _ := c.next(); req != nil {
				c.say(okAnswer)
				_, _ = io.ReadFull(c.r, make([]byte, 100_000))
				c.reset()
			}
		})
		c := p.to(t, Config{})
		if _, _, err := fetch(t.Context(), c, request("POST", url, "warm up")); err != nil {
			t.Fatal(err)
		}
		_, err := c.Do(t.Context(), request("POST", url, strings.Repeat("x", 10<<20)))
		if e := failure(t, err); e.Cause != Closed || !e.Sent {
			t.Errorf("cause %v, sent %v: %v", e.Cause, e.Sent, e)
		}
	})
}

// head reads a request's line and header as they come over the wire.
func (c *connection) head() string {
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "\r\n\r\n") {
		p, err := c.r.ReadByte()
		if err != nil {
			return ""
		}
		b.WriteByte(p)
	}
	return b.String()
}

func TestRequestIsSentAsGiven(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, tt := range []struct {
		method, path, body string
		field              []string
		want               string // after the line with the host
	}{
		{"GET", "/p?q=%20a", "", []string{"x-lower", "1"}, "x-lower: 1\r\n"},
		{"POST", "", "four", []string{"X", " \ta b\t "}, "Content-Length: 4\r\nX: a b\r\n"},
		{"PUT", "/", "", nil, "Content-Length: 0\r\n"},
		{"DELETE", "/%2F", "", []string{"user-agent", "mine", "X-Empty", ""}, "X-Empty: \r\nuser-agent: mine\r\n"},
		{"OPTIONS", "/a;b", "x", []string{"User-Agent", "mine"}, "User-Agent: mine\r\nContent-Length: 1\r\n"},
		{"get", "/?", "", []string{"Accept", "a", "Accept", "b"}, "Accept: a\r\nAccept: b\r\n"},
	} {
		eachPath(t, func(t *testing.T, p path) {
			raw := make(chan string, 1)
			url := p.serve(t, func(c *connection) {
				raw <- c.head()
				c.say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bno")
			})
			status, body, err := fetch(t.Context(), p.to(t, Config{}), request(tt.method, url+tt.path, tt.body, tt.field...))
			if status != 200 || body != "\x1f\x8bno" {
				t.Errorf("answer %d, %q, %v: the body must not be decoded", status, body, err)
			}
			path := tt.path
			if !strings.HasPrefix(path, "/") {
				path = "/" + path
			}
			host := url[strings.LastIndexByte(url, '/')+1:]
			want := tt.method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + tt.want + "\r\n"
			if got := <-raw; sorted(got) != sorted(want) {
				t.Errorf("target read %q, want %q", got, want)
			}
		})
	}
}

// sorted is a head with its fields in order.
func sorted(head string) string {
	lines := strings.Split(head, "\r\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, "\r\n")
}

// Over a link, the fields go out in the caller's order.
func TestOrderIsKept(t *testing.T) {
	raw := make(chan string, 1)
	url := rawServer(t, func(c *connection) {
		raw <- c.head()
		c.say(okAnswer)
	})
	field := []string{"Z", "1", "a", "2", "M", "3", "a", "4"}
	if _, _, err := fetch(t.Context(), client(t, Config{}), request("GET", url, "", field...)); err != nil {
		t.Fatal(err)
	}
	if got := <-raw; !strings.HasSuffix(got, "\r\nZ: 1\r\na: 2\r\nM: 3\r\na: 4\r\n\r\n") {
		t.Errorf("target read %q", got)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	eachPath(t, func(t *testing.T, p path) {
		var accepted atomic.Int32
		url := p.serve(t, func(c *connection) {
			accepted.Add(1)
			for req, _ := c.next(); req != nil; req, _ = c.next() {
				c.say(okAnswer)
			}
		})
		c := p.to(t, Config{})
		for range 20 {
			if _, _, err := fetch(t.Context(), c, request("POST", url, "x")); err != nil {
				t.Fatal(err)
			}
		}
		if n := accepted.Load(); n != 1 {
			t.Errorf("%d connections for requests one after the other", n)
		}
		if n := metricValue(t, c.dialer.metrics.connections); n != 1 {
			t.Errorf("gauge of connections is %v", n)
		}
	})
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
	for _, url := range []string{"http://x.test/", "https://x.test/", "http://x.test/a%00b?%0d"} {
		if _, err := c.Do(t.Context(), request("CONNECT", url, "")); failure(t, err).Cause != Unsendable {
			t.Errorf("CONNECT: %v", err)
		}
		for _, field := range [][]string{
			{"X-Bad", "a\r\nInjected: 1"}, {"X-Bad", "a\nb"}, {"X-Bad", "a\x00"}, {"X-Bad", "\x7f"}, {"a b", "c"}, {"a:", "c"}, {"", "c"}, {"é", "c"},
			{"Content-Length", "5"}, {"content-length", "0"}, {"Transfer-Encoding", "chunked"}, {"TE", "trailers"}, {"Trailer", "X"},
			{"Host", "other.test"}, {"Connection", "close"}, {"Upgrade", "x"}, {"Expect", "100-continue"}, {"Keep-Alive", "1"},
			{"Proxy-Connection", "x"}, {"HTTP2-Settings", "x"},
		} {
			_, err := c.Do(t.Context(), request("POST", url, "x", append([]string{"X-Good", "secret"}, field...)...))
			if e := failure(t, err); e.Cause != Unsendable || e.Sent || strings.Contains(e.Error(), "secret") {
				t.Errorf("%s %q: cause %v, sent %v: %v", url, field, e.Cause, e.Sent, e)
			}
		}
	}
	for _, r := range []Request{
		request("GET", "ftp://x.test/", ""), request("GET", "http:///", ""), request("GET", "x.test", ""), request("GET", "http:x.test", ""),
		request("GET", "http://x.test/\r\nX: y", ""), request("GET", "http://x test/", ""), request("GET", "http://[::1", ""),
		request("", "http://x.test/", ""), request("G T", "http://x.test/", ""), request("GET\r\n", "https://x.test/", ""),
	} {
		_, err := c.Do(t.Context(), r)
		if e := failure(t, err); e.Cause != Unsendable || e.Sent {
			t.Errorf("%s %s: cause %v, sent %v: %v", r.Method, r.URL, e.Cause, e.Sent, e)
		}
	}
}
