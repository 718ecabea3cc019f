package cluster_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func TestAnyNodeMayBeAsked(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for i := range 30 {
			owner := w.ranked(tenant(i))[0]
			for asked := range w.nodes {
				body := asked + tenant(i)
				got := w.post(asked, tenant(i), body)
				if got.StatusCode != http.StatusCreated || got.body != owner || got.err != nil {
					t.Fatalf("%d %s %v", got.StatusCode, got.body, got.err)
				}
				if h := got.Header[cluster.OwnerHeader]; len(h) != 1 || h[0] != owner {
					t.Errorf("the owner is %v, want %s", h, owner)
				}
				if h := got.Header["X-Twice"]; len(h) != 1 || h[0] != "from "+owner {
					t.Errorf("a header came as %q", h)
				}
				w.took(body, owner)
			}
		}
	})
}

func TestNoKeyIsAnsweredHere(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for id := range w.nodes {
			if got := w.post(id, "", "x"); got.body != id {
				t.Errorf("asked %s, answered %s", id, got.body)
			}
		}
	})
}

func TestUnsettledNodesAskToComeBack(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1")
		w.fleet.Unsettle("node-0", cluster.ErrAlone)
		if body := w.post("node-0", key, "x").refused(t, 503); !strings.Contains(body.Error, cluster.ErrAlone.Error()) {
			t.Error(body.Error)
		}
		w.do(http.MethodGet, "http://node-0/held/node-1", "", "").refused(t, 503)
		w.took("x")
	})
}

func TestNodesThatAllDrainSaySoThemselves(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fleet.Drain("node-0")
		w.fleet.Drain("node-1")
		if got := w.post("node-0", "ada", "x"); got.body != "node-0" {
			t.Errorf("answered by %s", got.body)
		}
	})
}

func TestRequestsGoAsTheyCame(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		key := w.of("node-1")
		var got *http.Request
		w.nodes["node-1"].answerWith(func(_ http.ResponseWriter, r *http.Request) { got = r })
		for _, target := range []string{"/jobs", "/jobs/a%2Fb%20c?x=%20&y=a+b&&z", "/jobs?", "//jobs", "/proxy"} {
			w.do(http.MethodPost, "http://node-0"+target, key, "b\x00dy")
			if got.RequestURI != target {
				t.Errorf("%s came as %s", target, got.RequestURI)
			}
			if body, _ := io.ReadAll(got.Body); string(body) != "b\x00dy" {
				t.Errorf("the body came as %q", body)
			}
			if hop, ok := cluster.HopOf(got); !ok || hop.From != "node-0" || !hop.Sealed || !hop.Forwarded {
				t.Errorf("the hop came as %+v", hop)
			}
			for name := range got.Header {
				if strings.HasPrefix(name, "X-Aquifer-") {
					t.Errorf("%s is seen behind the gate", name)
				}
			}
		}
	})
}

func TestHeadersOfTheConnectionStayBehind(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		key := w.of("node-1")
		w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Keep-Alive", "Proxy-Authenticate", "Te", "Upgrade", "X-Hop", "X-Also"} {
				rw.Header().Set(name, "x")
			}
			rw.Header()["Connection"] = []string{"x-hop", "Keep-Alive , X-ALSO"}
			rw.Header()["X-End"] = []string{"a", "b"}
			rw.Header().Set("Date", "Mon, 30 Nov 2026 09:15:00 GMT")
		})
		got := w.post("node-0", key, "x")
		for _, name := range []string{"Keep-Alive", "Proxy-Authenticate", "Te", "Upgrade", "X-Hop", "X-Also", "Connection"} {
			if v, there := got.Header[name]; there {
				t.Errorf("%s: %q came through", name, v)
			}
		}
		if v := got.Header["X-End"]; len(v) != 2 || v[0] != "a" || v[1] != "b" {
			t.Errorf("X-End came as %q", v)
		}
		if v := got.Header["Date"]; len(v) != 1 || v[0] != "Mon, 30 Nov 2026 09:15:00 GMT" {
			t.Errorf("Date came as %q", v)
		}
	})
}

// What has no type, as an answer of a target may, gets none on its way.
func TestNoTypeIsMadeUp(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Type"] = nil
			_, _ = io.WriteString(rw, "<html>")
		})
		if got := w.post("node-0", w.of("node-1"), "x"); got.Header["Content-Type"] != nil || got.body != "<html>" {
			t.Errorf("%q came as %q", got.body, got.Header["Content-Type"])
		}
	})
}

func TestLargeBodiesGoThroughBothWays(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(rw, r.Body) })
		large := strings.Repeat("0123456789abcdef", 5<<16)
		if got := w.post("node-0", w.of("node-1"), large); got.body != large || got.err != nil {
			t.Errorf("%d bytes came back, %v", len(got.body), got.err)
		}
	})
}

func TestOtherRefusalsOfTheOwnerAreItsAnswer(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1")
		for _, status := range []int{400, 401, 404, 409, 413, 422, 429, 500, 502, 503, 504} {
			w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Retry-After", "17")
				rw.WriteHeader(status)
				_, _ = io.WriteString(rw, "why")
			})
			got := w.post("node-0", key, "x")
			if got.StatusCode != status || got.body != "why" || got.Header.Get("Retry-After") != "17" {
				t.Errorf("%d came as %d %s", status, got.StatusCode, got.body)
			}
		}
		if n := w.nodes["node-2"].count(&w.nodes["node-2"].seen); n != 0 {
			t.Errorf("the next in rank got %d requests", n)
		}
	})
}

func TestTooManyWaitForOneNode(t *testing.T) {
	for name, change := range map[string]func(*cluster.ForwarderConfig){
		"requests": func(c *cluster.ForwarderConfig) { c.MaxWaiting = 2 },
		"bytes":    func(c *cluster.ForwarderConfig) { c.MaxWaitingBytes = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorldOf(t, 3, func(_ string, c *cluster.ForwarderConfig) { change(c) }, func(t *testing.T, w *world) {
				key, other := w.of("node-1"), w.of("node-2")
				release := make(chan struct{})
				w.nodes["node-1"].answerWith(func(http.ResponseWriter, *http.Request) { <-release })
				done := make(chan int, 2)
				for range 2 {
					go func() { done <- w.post("node-0", key, "1234").StatusCode }()
				}
				time.Sleep(time.Second)
				if body := w.post("node-0", key, "5678").refused(t, 503); body.Owner != "node-1" {
					t.Errorf("%+v", body)
				}
				if got := w.post("node-0", other, ""); got.body != "node-2" {
					t.Errorf("another node's tenant got %d %s", got.StatusCode, got.body)
				}
				close(release)
				if a, b := <-done, <-done; a != 200 || b != 200 {
					t.Errorf("those that waited got %d and %d", a, b)
				}
				if got := w.post("node-0", key, strings.Repeat("x", 100)); got.StatusCode != 200 {
					t.Errorf("when nothing waits: %d %s", got.StatusCode, got.body)
				}
				w.took("5678")
			})
		})
	}
}

// A transport that does not tell how far a request has come can say it with its errors.
func TestTransportsMayTellByTheirErrors(t *testing.T) {
	errBlack := errors.New("black")
	for name, c := range map[string]struct {
		err    error
		status int
	}{"unsent": {errRefused, 201}, "perhaps sent": {errBlack, 504}} {
		t.Run(name, func(t *testing.T) {
			change := func(id string, fc *cluster.ForwarderConfig) {
				under := fc.Transport
				fc.Unsent = func(err error) bool { return errors.Is(err, errRefused) }
				fc.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host == "node-1" {
						return nil, c.err
					}
					return under.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
				})
			}
			inWorldOf(t, 3, change, func(t *testing.T, w *world) {
				if got := w.post("node-0", w.of("node-1", "node-2"), "x"); got.StatusCode != c.status {
					t.Errorf("got %d %s", got.StatusCode, got.body)
				}
			})
		})
	}
}

func TestTransportsThatTellByTheirErrorsHaveNoMoreTime(t *testing.T) {
	change := func(_ string, fc *cluster.ForwarderConfig) {
		fc.Unsent = func(error) bool { return false }
		fc.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
	}
	inWorldOf(t, 2, change, func(t *testing.T, w *world) {
		begin := time.Now()
		if got := w.post("node-0", w.of("node-1"), "x"); got.StatusCode != 504 || time.Since(begin) != 10*time.Second {
			t.Errorf("got %d after %s", got.StatusCode, time.Since(begin))
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
