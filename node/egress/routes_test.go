package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// movingTarget is a name that leads to one host and later to another.
type movingTarget struct{ at atomic.Pointer[memHost] }

func (m *movingTarget) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return m.at.Load().dial(ctx)
}

func answerWith(text string) http.HandlerFunc {
	pair := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
			return
		case "/pair": // two requests at the same time
			select {
			case pair <- struct{}{}:
			case <-pair:
			}
		}
		_, _ = w.Write([]byte(text + " " + r.Proto))
	}
}

// attemptWithin is one attempt with a time limit.
func attemptWithin(t *testing.T, c *Client, limit time.Duration, url string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, body, err := fetch(ctx, c, request("POST", url, "x"))
	return body, err
}

func TestNW01_SilentConnectionIsLeftAfterOneTimeout(t *testing.T) {
	for name, url := range map[string]string{"HTTP/2.0": "https://moving.test/", "HTTP/1.1": "http://moving.test/"} {
		for _, limit := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 2 * time.Minute} {
			t.Run(name+" "+limit.String(), func(t *testing.T) {
				serverTLS, clientTLS := certificate(t, "moving.test")
				if name == "HTTP/1.1" {
					serverTLS = nil
				}
				synctest.Test(t, func(t *testing.T) { testSilent(t, url, limit, serverTLS, clientTLS, name) })
			})
		}
	}
}

func testSilent(t *testing.T, url string, limit time.Duration, serverTLS, clientTLS *tls.Config, proto string) {
	old, moved := newMemHost(), newMemHost()
	defer old.serve(answerWith("old"), serverTLS)()
	defer moved.serve(answerWith("new"), serverTLS)()
	var target movingTarget
	target.at.Store(old)
	c, err := New(Config{Dial: target.dial, TLS: clientTLS})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	var warm sync.WaitGroup
	for range 2 {
		warm.Go(func() {
			if body, err := attemptWithin(t, c, limit, url+"pair"); body != "old "+proto {
				t.Errorf("before: %q, %v", body, err)
			}
		})
	}
	warm.Wait()
	old.vanish()
	target.at.Store(moved)

	_, err = attemptWithin(t, c, limit, url)
	// With a long limit, HTTP/2 notices first that its pings get no answer.
	if e := failure(t, err); (e.Cause != Timeout && e.Cause != Reset) || !e.Sent {
		t.Errorf("on the silent connection: cause %v, sent %v: %v", e.Cause, e.Sent, e)
	}
	if body, err := attemptWithin(t, c, limit, url); body != "new "+proto {
		t.Errorf("the next attempt: %q, %v", body, err)
	}
}

// A host that is alive but slow keeps its connections, but for one at times.
func TestSlowTargetCostsFewConnections(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "slow.test")
	synctest.Test(t, func(t *testing.T) {
		host := newMemHost()
		defer host.serve(answerWith("slow"), serverTLS)()
		c, err := New(Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return host.dial(ctx) }, TLS: clientTLS})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		const attempts = 100
		for range attempts {
			if _, err := attemptWithin(t, c, time.Second, "https://slow.test/slow"); failure(t, err).Cause != Timeout {
				t.Fatal(err)
			}
		}
		if n := host.vanish(); n > attempts/int(detourPause/time.Second)+2 {
			t.Errorf("%d connections for %d attempts", n, attempts)
		}
		time.Sleep(detourTime + idleConnTimeout + time.Second)
		if _, err := attemptWithin(t, c, time.Second, "https://slow.test/"); err != nil {
			t.Error(err)
		}
		if c.routes.detours.Load() != 0 || metricValue(t, c.dialer.metrics.connections) != 1 {
			t.Errorf("%d detours, %v connections stay", c.routes.detours.Load(), metricValue(t, c.dialer.metrics.connections))
		}
	})
}

// What is under way on a connection that others leave goes on.
func TestLeavingDoesNotDisturbOthers(t *testing.T) {
	serverTLS, clientTLS := certificate(t, "busy.test")
	synctest.Test(t, func(t *testing.T) {
		host := newMemHost()
		release := make(chan struct{})
		defer host.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				<-release
			} else {
				<-r.Context().Done()
			}
			_, _ = w.Write([]byte("done"))
		}, serverTLS)()
		c, err := New(Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return host.dial(ctx) }, TLS: clientTLS})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		done := make(chan error, 1)
		go func() {
			body, err := attemptWithin(t, c, time.Hour, "https://busy.test/long")
			if body != "done" && err == nil {
				t.Errorf("body %q", body)
			}
			done <- err
		}()
		synctest.Wait()
		for range 30 {
			if _, err := attemptWithin(t, c, time.Second, "https://busy.test/short"); failure(t, err).Cause != Timeout {
				t.Fatal(err)
			}
		}
		close(release)
		if err := <-done; err != nil {
			t.Errorf("the long request: %v", err)
		}
	})
}

// Many hosts that fall silent at once are forgotten again.
func TestDetoursEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := newRoutes(func() *http.Transport { return &http.Transport{} }, m)
		hosts := []string{"a", "b", "c"}
		for _, h := range hosts {
			r.leave(h, r.main)
			if r.to(h) == r.main {
				t.Errorf("%s was not left", h)
			}
			time.Sleep(10 * time.Second)
		}
		first := r.to("c")
		r.leave("c", r.main) // an attempt that began before the detour
		r.leave("c", first)  // too soon
		if r.to("c") != first {
			t.Error("c was left again at once")
		}
		time.Sleep(detourPause)
		r.leave("c", first)
		if r.to("c") == first {
			t.Error("c was not left again")
		}
		time.Sleep(detourTime)
		for _, h := range hosts {
			if r.to(h) != r.main {
				t.Errorf("%s is still on a detour", h)
			}
		}
		if n := r.detours.Load(); n != 0 || len(r.away) != 0 {
			t.Errorf("%d detours stay", n)
		}
	})
}
