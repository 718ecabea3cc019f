package cluster_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func TestOwnerRefusesConnections(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key, dead := w.of("node-1", "node-2"), w.nodes["node-1"]
		dead.kill()
		for _, body := range []string{"x", "y"} {
			if got := w.post("node-0", key, body); got.StatusCode != 201 || got.body != "node-2" {
				t.Fatalf("%d %s", got.StatusCode, got.body)
			}
			w.took(body, "node-2")
		}
		if n := dead.count(&dead.dials); n != 1 {
			t.Errorf("the dead node was tried %d times", n)
		}
		if got := w.nodes["node-0"].owners.Pruned(); !slices.Equal(got, []string{"node-1"}) {
			t.Errorf("passed over are %v", got)
		}
		if got := w.post("node-0", w.of("node-1", "node-0"), "z"); got.body != "node-0" {
			t.Errorf("the node itself is next, and %s answered", got.body)
		}
	})
}

func TestOwnerDoesNotAnswerTheDial(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.nodes["node-1"].setDial(hang)
		key := w.of("node-1", "node-2")
		for i, want := range []time.Duration{5 * time.Second, 0} {
			var got reply
			if took := elapsed(func() { got = w.post("node-0", key, "x") }); took != want || got.body != "node-2" {
				t.Errorf("try %d: %d %s after %v", i, got.StatusCode, got.body, took)
			}
		}
	})
}

func TestOwnerDrains(t *testing.T) {
	for _, header := range []string{"X-Aqueduct-Node-State", "X-Aquifer-Node-State"} {
		t.Run(header, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set(header, "draining")
					rw.Header().Set("X-Left-Over", "x")
					rw.WriteHeader(503)
				})
				got := w.post("node-0", w.of("node-1", "node-2"), "x")
				if got.body != "node-2" || got.Header.Get("X-Left-Over") != "" {
					t.Errorf("%d %s %v", got.StatusCode, got.body, got.Header)
				}
			})
		})
	}
}

func TestNobodyIsLeft(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.fleet.Drain("node-0")
		w.nodes["node-1"].kill()
		w.nodes["node-2"].setDial(hang)
		got := w.post("node-0", w.of("node-1", "node-2"), "x").refused(t, 502)
		if !slices.Equal(got.Tried, []string{"node-1", "node-2"}) {
			t.Errorf("tried %v", got.Tried)
		}
		w.took("x")
		// Those that are passed over are tried all the same when there is nobody else.
		w.nodes["node-1"].setDial(nil)
		if got := w.post("node-0", w.of("node-1", "node-2"), "y"); got.body != "node-1" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		if got := w.nodes["node-0"].owners.Pruned(); !slices.Equal(got, []string{"node-2"}) {
			t.Errorf("passed over are %v, after one has answered", got)
		}
	})
}

// A node that drains has not told the others yet, and gives the work to one that it could not reach
// before. That one must not think that it is passed over by itself.
func TestTheLastOneLeftWasPassedOver(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		key := w.of("node-1")
		w.fleet.View("node-0").Edit(func(r *cluster.Roster) { r.Self.State = cluster.Draining })
		w.nodes["node-0"].owners.Prune(t.Context(), "node-1", key)
		if got := w.post("node-0", key, "x"); got.body != "node-1" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

// A node that drains is called for a tenant of its own before the others have heard of it. Whom it asks must not send
// it back, nor take it for one that is back.
func TestADrainingNodeGivesAwayItsOwnTenants(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-0", "node-1")
		w.fleet.View("node-0").Edit(func(r *cluster.Roster) { r.Self.State = cluster.Draining })
		w.nodes["node-1"].owners.Prune(t.Context(), "node-0", key)
		for _, passedOver := range [][]string{{"node-0"}, nil} {
			if got := w.post("node-0", key, "x"); got.StatusCode != 201 || got.body != "node-1" {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
			if got := w.nodes["node-1"].owners.Pruned(); !slices.Equal(got, passedOver) {
				t.Errorf("passed over are %v, not %v", got, passedOver)
			}
			w.nodes["node-1"].owners.Heard("node-0")
		}
	})
}

// A node that has come back answers for its tenants when it knows its cluster. Until then the next one does, whoever is
// called, and from then on nobody passes it over.
func TestANodeThatIsNotSettledOwnsNothingYet(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		w.fleet.Unsettle("node-1", cluster.ErrAlone)
		for _, called := range []string{"node-0", "node-2"} {
			if got := w.post(called, key, "x"); got.StatusCode != 201 || got.body != "node-2" {
				t.Errorf("%s called: %d %s", called, got.StatusCode, got.body)
			}
		}
		w.fleet.Unsettle("node-1", nil)
		for _, called := range []string{"node-0", "node-2", "node-1"} {
			if got := w.post(called, key, "y"); got.body != "node-1" {
				t.Errorf("%s called: %d %s", called, got.StatusCode, got.body)
			}
		}
	})
}

// A node has left, and not all have heard so. Who has not sends callers back to it; who has knows better.
func TestWhoHasLeftIsNoOwnerForThoseWhoHaveNotHeard(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		state := func(s cluster.State) {
			w.fleet.View("node-0").Edit(func(r *cluster.Roster) {
				i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.ID == "node-1" })
				if s == cluster.Offline {
					r.Members = slices.Delete(r.Members, i, i+1)
					return
				}
				r.Members[i].State = s
			})
			w.nodes["node-0"].owners.Pruned() // it has looked at its view meanwhile
		}
		w.nodes["node-1"].kill()
		state(cluster.Draining)
		state(cluster.Offline)
		if got := w.post("node-0", key, "x"); got.StatusCode != 201 || got.body != "node-2" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

// broken answers with the end of the connection, n times, then in order.
func broken(n int) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		if n--; n >= 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(rw, "at last")
	}
}

func TestOwnerDiesWithTheRequest(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		w.nodes["node-1"].answerWith(broken(1))
		if got := w.post("node-0", key, "x"); got.StatusCode != 200 || got.body != "at last" {
			t.Errorf("after one broken connection: %d %s", got.StatusCode, got.body)
		}
		w.took("x", "node-1", "node-1")
		w.nodes["node-1"].answerWith(broken(2))
		if got := w.post("node-0", key, "y").refused(t, 504); got.Owner != "node-1" {
			t.Errorf("%+v", got)
		}
		w.took("y", "node-1", "node-1")
		w.nodes["node-1"].answerWith(func(http.ResponseWriter, *http.Request) {
			w.nodes["node-1"].kill()
			panic(http.ErrAbortHandler)
		})
		if got := w.post("node-0", key, "z").refused(t, 504); got.Owner != "node-1" {
			t.Errorf("%+v", got)
		}
		w.took("z", "node-1")
		if got := w.nodes["node-0"].result("unanswered"); got != 2 {
			t.Errorf("%v are counted", got)
		}
	})
}

// The owner hangs, as when its disk does: its tenants' callers are told when to come back, and those of
// the other tenants notice nothing.
func TestCL06OwnersThatHangAreNotWaitedForWithoutBound(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		gone := make(chan struct{})
		w.nodes["node-1"].answerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(gone) })
		var got reply
		other := make(chan string, 1)
		time.AfterFunc(time.Second, func() {
			var body string
			if took := elapsed(func() { body = w.post("node-0", w.of("node-2"), "y").body }); took != 0 {
				t.Errorf("another tenant waited for %v", took)
			}
			other <- body
		})
		took := elapsed(func() { got = w.post("node-0", w.of("node-1", "node-2"), "x") })
		if body := <-other; body != "node-2" {
			t.Errorf("another tenant got %s", body)
		}
		if body := got.refused(t, 504); body.Owner != "node-1" || took != 10*time.Second {
			t.Errorf("%+v after %v", body, took)
		}
		<-gone
		w.took("x", "node-1")
	})
}

// A connection that was kept, and closed by the other end while it was idle, is no sign of anything.
func TestKeptConnectionsThatHaveDied(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		key, owner := w.of("node-1"), w.nodes["node-1"]
		for _, body := range []string{"a", "b", "c"} {
			if got := w.post("node-0", key, body); got.StatusCode != 201 {
				t.Fatalf("%s: %d %s", body, got.StatusCode, got.body)
			}
			w.took(body, "node-1")
			owner.kill()
			owner.setDial(nil)
		}
		if got := w.nodes["node-0"].owners.Pruned(); len(got) != 0 {
			t.Errorf("passed over are %v", got)
		}
	})
}

// What was not written to a kept connection is not sent, although the request had that connection.
func TestKeptConnectionsThatTakeNothing(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		w.post("node-0", key, "x")
		w.took("x", "node-1")
		w.nodes["node-1"].sever()
		if got := w.post("node-0", key, "y"); got.body != "node-2" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		w.took("y", "node-2")
	})
}

func TestOwnerDiesWhileItAnswers(t *testing.T) {
	for name, length := range map[string]string{"of known length": "10", "of unknown length": ""} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
					if length != "" {
						rw.Header().Set("Content-Length", length)
					}
					_, _ = io.WriteString(rw, "12345")
					_ = http.NewResponseController(rw).Flush()
					panic(http.ErrAbortHandler)
				})
				got := w.post("node-0", w.of("node-1", "node-2"), "x")
				if got.StatusCode != 200 || got.err == nil || got.body != "12345" {
					t.Errorf("half an answer passes for a whole one: %d %q, %v", got.StatusCode, got.body, got.err)
				}
				w.took("x", "node-1")
				if n := w.nodes["node-0"].result("broken"); n != 1 {
					t.Errorf("%v are counted", n)
				}
			})
		})
	}
}

func TestMembersThatAreBackAreFound(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key, h := w.of("node-1", "node-0"), w.nodes["node-0"]
		end := runForwarder(t, h.forwarder)
		defer end()
		w.nodes["node-1"].kill()
		w.post("node-0", key, "x")
		time.Sleep(10 * time.Second)
		if len(h.owners.Pruned()) != 1 {
			t.Error("a dead node is taken for a living one")
		}
		w.nodes["node-1"].setDial(hang)
		time.Sleep(3 * time.Second)
		w.nodes["node-1"].setDial(nil)
		time.Sleep(6 * time.Second) // the probe that hangs, and the next
		if got := w.post("node-0", key, "y"); got.body != "node-1" {
			t.Errorf("%s answered", got.body)
		}
	})
}

func runForwarder(t *testing.T, f *cluster.Forwarder) (end func()) {
	t.Helper()
	ctx, cancel := contextOf(t)
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		ctx, cancel := contextOf(t)
		cancel()
		for range 2 {
			if err := w.nodes["node-0"].forwarder.Run(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}
