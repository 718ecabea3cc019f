package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// kept serves answers, the n-th to the n-th request, and tells which connection each request came on.
func (p path) kept(t testing.TB, answer func(n int, c *connection)) (url string, conns func() []int) {
	t.Helper()
	var count atomic.Int32
	on := make(chan int, 100)
	url = p.serve(t, func(c *connection) {
		for req, _ := c.next(); req != nil; req, _ = c.next() {
			on <- c.n
			answer(int(count.Add(1)), c)
		}
	})
	return url, func() (list []int) {
		for len(on) > 0 {
			list = append(list, <-on)
		}
		return list
	}
}

// TestWhatIsKept sends two requests: the second goes over the same connection only if the answer to the
// first has left nothing open.
func TestWhatIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		method, answer string
		kept           bool
	}{
		"length":                 {"POST", okAnswer, true},
		"length 0":               {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
		"the same length twice":  {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", true},
		"chunked":                {"POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"chunked with a trailer": {"POST", "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", true},
		"chunked and length":     {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"no content":             {"POST", "HTTP/1.1 204 No Content\r\n\r\n", true},
		"not modified":           {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", true},
		"head":                   {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true},
		"hints before":           {"POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okAnswer, true},
		"HTTP/1.0 that stays":    {"POST", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true},
		"HTTP/1.0":               {"POST", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		"close":                  {"POST", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
		"close among others":     {"POST", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", false},
	} {
		t.Run(name, func(t *testing.T) {
			eachPath(t, func(t *testing.T, p path) { testKept(t, p, tt.method, tt.answer, tt.kept) })
		})
	}
}

func testKept(t *testing.T, p path, method, answer string, kept bool) {
	url, conns := p.kept(t, func(n int, c *connection) {
		if n == 1 {
			c.say(answer)
		} else {
			c.say("HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nown")
		}
	})
	c := p.to(t, Config{})
	if _, _, err := fetch(t.Context(), c, request(method, url, "x")); err != nil {
		t.Fatal(err)
	}
	status, body, err := fetch(t.Context(), c, request("POST", url, "x"))
	if status != 201 || body != "own" {
		t.Errorf("the second answer is %d %q, %v", status, body, err)
	}
	if on := conns(); (on[0] == on[1]) != kept {
		t.Errorf("requests came on connections %v", on)
	}
}

// What comes after an answer is not the answer to the next request. The transport may be too late to
// notice, so this is about links.
func TestNothingIsLeftForTheNextRequest(t *testing.T) {
	for name, tt := range map[string]struct{ method, answer string }{
		"one byte too many":       {"POST", okAnswer + "!"},
		"a second answer":         {"POST", okAnswer + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"},
		"no content, but a body":  {"POST", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok"},
		"head with a body":        {"HEAD", okAnswer},
		"chunks and bytes beyond": {"POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx"},
	} {
		t.Run(name, func(t *testing.T) { testKept(t, path{}, tt.method, tt.answer, false) })
	}
}

func TestUnreadBodyIsNotKept(t *testing.T) {
	eachPath(t, func(t *testing.T, p path) {
		url, conns := p.kept(t, func(_ int, c *connection) { c.say(okAnswer) })
		c := p.to(t, Config{})
		for range 2 {
			resp, err := c.Do(t.Context(), request("POST", url, "x"))
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("read after Close: %v", err)
			}
		}
		if on := conns(); on[0] == on[1] {
			t.Errorf("requests came on connections %v", on)
		}
	})
}

// A target may close a kept connection, or speak on it, before the next request is written. That request
// goes over a new one, and nothing of it is lost or answered by what was left.
func TestHP01_StaleConnectionIsNotUsed(t *testing.T) {
	for name, end := range map[string]func(c *connection){
		"closed":  func(c *connection) { _ = c.Close() },
		"reset":   (*connection).reset,
		"timeout": func(c *connection) { c.say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"); _ = c.Close() },
		"speaks":  func(c *connection) { c.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison") },
	} {
		t.Run(name, func(t *testing.T) {
			idle, done := make(chan struct{}), make(chan struct{})
			url, conns := path{}.kept(t, func(n int, c *connection) {
				c.say(okAnswer)
				if n == 1 {
					<-idle
					end(c)
					close(done)
				}
			})
			c := client(t, Config{})
			for n := range 2 {
				if status, body, err := fetch(t.Context(), c, request("POST", url, "payload")); status != 200 || body != "ok" {
					t.Fatalf("request %d: %d %q, %v", n, status, body, err)
				}
				if n == 0 {
					close(idle)
					<-done
				}
			}
			if on := conns(); len(on) != 2 || on[0] == on[1] {
				t.Errorf("requests came on connections %v", on)
			}
		})
	}
}

// pipes is a network of pipes in memory; the other end of each is served by handle.
func pipes(handle func(c *connection)) func(context.Context, string, string) (net.Conn, error) {
	n := 0
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		n++
		c := newConnection(far, n)
		go func() {
			defer func() { _ = c.Close() }()
			handle(c)
		}()
		return near, nil
	}
}

// A connection without a socket is watched while it is idle.
func TestIdlePipeIsWatched(t *testing.T) {
	for name, end := range map[string]func(c *connection){
		"closed": func(c *connection) { _ = c.Close() },
		"speaks": func(c *connection) { c.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests []string
				c, err := New(Config{Dial: pipes(func(c *connection) {
					for req, body := c.next(); req != nil; req, body = c.next() {
						requests = append(requests, body)
						c.say(okAnswer)
						if len(requests) == 2 {
							time.Sleep(time.Second)
							end(c)
						}
					}
				})})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				for _, body := range []string{"a", "b", "c", "d"} {
					r := request("POST", "http://pipe.test/", body)
					r.Deadline = time.Now().Add(time.Second)
					if _, got, err := fetch(t.Context(), c, r); got != "ok" {
						t.Fatalf("%s: %q, %v", body, got, err)
					}
					time.Sleep(time.Minute) // longer than the deadline, shorter than idleConnTimeout
					if n := metricValue(t, c.dialer.metrics.connections); (n == 0) != (body == "b") {
						t.Errorf("after %s there are %v connections", body, n)
					}
				}
				if got := strings.Join(requests, ""); got != "abcd" {
					t.Errorf("the target read %q", got)
				}
			})
		})
	}
}

func TestIdleLinksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Dial: pipes(func(c *connection) {
			for req, _ := c.next(); req != nil; req, _ = c.next() {
				c.say(okAnswer)
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, host := range []string{"a", "b", "b"} {
			if _, _, err := fetch(t.Context(), c, request("GET", "http://"+host+".test/", "")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(idleConnTimeout / 2)
		}
		if n := metricValue(t, c.dialer.metrics.connections); n != 1 {
			t.Errorf("%v connections, want that of b", n)
		}
		time.Sleep(idleConnTimeout/2 + sweepEvery)
		if n := metricValue(t, c.dialer.metrics.connections); n != 0 {
			t.Errorf("%v connections stay", n)
		}
		time.Sleep(sweepEvery)
		if total := c.links.kept(); total != 0 || len(c.links.hosts) != 0 || c.links.sweep != nil {
			t.Errorf("%d links and %d hosts stay", total, len(c.links.hosts))
		}
	})
}

// Closed sockets do not wait for the next request.
func TestClosedSocketsAreFound(t *testing.T) {
	url, _ := path{}.kept(t, func(_ int, c *connection) { c.say(okAnswer); _ = c.Close() })
	c := client(t, Config{})
	if _, _, err := fetch(t.Context(), c, request("POST", url, "x")); err != nil {
		t.Fatal(err)
	}
	for metricValue(t, c.dialer.metrics.connections) != 0 {
		c.links.tidy()
	}
}

// TestLinksAreBounded gives back more links than are kept.
func TestLinksAreBounded(t *testing.T) {
	c := client(t, Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe()
		return near, nil
	}})
	open := func(address string, n int) (list []*link) {
		for range n {
			l, reused, err := c.links.get(&attempt{Context: t.Context(), client: c}, address)
			if err != nil || reused {
				t.Fatalf("reused %v, %v", reused, err)
			}
			list = append(list, l)
		}
		return list
	}
	idle := func(address string) int {
		c.links.mu.Lock()
		defer c.links.mu.Unlock()
		if h := c.links.hosts[address]; h != nil {
			return len(h.idle)
		}
		return 0
	}
	first := open("a:80", maxIdleConnsPerHost+2)
	for _, l := range first {
		c.links.put(l)
	}
	if n := idle("a:80"); n != maxIdleConnsPerHost {
		t.Errorf("%d links to one host are kept", n)
	}
	if l, reused, err := c.links.get(&attempt{Context: t.Context(), client: c}, "a:80"); l != first[maxIdleConnsPerHost-1] || !reused {
		t.Errorf("the link that was given back last is not the first to be taken: %v, %v", reused, err)
	}
	for _, address := range []string{"b:80", "c:80", "d:80", "e:80"} {
		for _, l := range open(address, maxIdleConnsPerHost) {
			c.links.put(l)
		}
	}
	total := 0
	for _, address := range []string{"a:80", "b:80", "c:80", "d:80", "e:80"} {
		total += idle(address)
	}
	if counted := c.links.kept(); total != maxIdleConns || counted != total || idle("e:80") == 0 {
		t.Errorf("%d links are kept, %d counted", total, counted)
	}
	if n := metricValue(t, c.dialer.metrics.connections); n != maxIdleConns+1 {
		t.Errorf("%v connections are open", n)
	}
	last := open("f:80", 1)[0]
	c.Close()
	c.links.put(last)
	if n := metricValue(t, c.dialer.metrics.connections); n != 0 || idle("f:80") != 0 {
		t.Errorf("%v connections stay", n)
	}
	if _, err := c.Do(t.Context(), request(http.MethodGet, "http://f/", "")); failure(t, err).Cause != Canceled {
		t.Errorf("a request after Close: %v", err)
	}
}

// TestFewIdleConns keeps no more idle connections than the client is told to, and never more than the most.
func TestFewIdleConns(t *testing.T) {
	for most, want := range map[int]int{0: maxIdleConns, 3: 3, 2 * maxIdleConns: maxIdleConns} {
		c := client(t, Config{MaxIdleConns: most, Dial: func(context.Context, string, string) (net.Conn, error) {
			near, _ := net.Pipe()
			return near, nil
		}})
		var list []*link
		for n := range maxIdleConns + 10 {
			l, _, err := c.links.get(&attempt{Context: t.Context(), client: c}, string(rune('a'+n%8))+":80")
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, l)
		}
		for _, l := range list {
			c.links.put(l)
		}
		total := c.links.kept()
		if n := metricValue(t, c.dialer.metrics.connections); total != want || int(n) != want {
			t.Errorf("with MaxIdleConns %d %d are kept and %v open, want %d", most, total, n, want)
		}
	}
}

// kept counts the idle links. The watch of one that was closed may still be about to forget it.
func (s *links) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
