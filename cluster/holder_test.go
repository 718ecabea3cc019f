package cluster_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

// holds makes a node have what is asked for.
func (h *host) holds(what string) {
	h.answerWith(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, what) })
}

func TestHoldersAreFound(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.nodes["node-2"].holds("it")
		for path, asked := range map[string][]int{
			"/held/node-2": {0, 1, 0}, // the likely one is asked alone
			"/held/node-3": {1, 1, 1}, // or first
			"/held/nobody": {1, 1, 0}, // or all, until one has it
		} {
			var before [3]int
			for i, id := range []string{"node-1", "node-2", "node-3"} {
				before[i] = w.nodes[id].count(&w.nodes[id].seen)
			}
			got := w.do(http.MethodGet, "http://node-0"+path, "", "")
			if got.StatusCode != 200 || got.body != "it" {
				t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
			}
			for i, id := range []string{"node-1", "node-2", "node-3"} {
				if n := w.nodes[id].count(&w.nodes[id].seen) - before[i]; n != asked[i] {
					t.Errorf("%s: %s was asked %d times, want %d", path, id, n, asked[i])
				}
			}
		}
	})
}

func TestDrainingNodesHoldWhatTheyHave(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.nodes["node-1"].holds("it")
		w.fleet.Drain("node-1")
		if got := w.do(http.MethodGet, "http://node-0/held/x", "", ""); got.body != "it" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

func TestNobodyHoldsIt(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		if got := w.do(http.MethodGet, "http://node-0/held/node-1", "", ""); got.StatusCode != 404 || got.Header.Get("X-Twice") != "from node-0" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		for id, h := range w.nodes {
			if n := h.count(&h.seen); n != 1 {
				t.Errorf("%s was asked %d times", id, n)
			}
		}
	})
}

// What a node that cannot be asked has is not known to be nowhere.
func TestTheHolderMayBeOut(t *testing.T) {
	for name, fault := range map[string]func(*host){
		"refuses": (*host).kill,
		"hangs": func(h *host) {
			h.answerWith(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		},
		"breaks": func(h *host) { h.answerWith(broken(1 << 30)) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				fault(w.nodes["node-1"])
				got := w.do(http.MethodGet, "http://node-0/held/node-1", "", "").refused(t, 502)
				if !slices.Equal(got.Tried, []string{"node-1"}) {
					t.Errorf("%+v", got)
				}
				w.nodes["node-2"].holds("it")
				if got := w.do(http.MethodGet, "http://node-0/held/node-1", "", ""); got.body != "it" {
					t.Errorf("%d %s", got.StatusCode, got.body)
				}
			})
		})
	}
}

// What a node that was a member holds is not known to be nowhere either, for a day.
func TestTheHolderMayComeBack(t *testing.T) {
	for name, leaves := range map[string]bool{"dies": false, "leaves": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				gone := w.nodes["node-1"]
				if leaves {
					w.fleet.Drain("node-1")
				}
				w.ask("node-1")
				gone.kill()
				w.fleet.Kill("node-1")
				w.ask("node-1")
				for _, wait := range []time.Duration{0, time.Minute, 23 * time.Hour} {
					time.Sleep(wait)
					if got := w.ask("node-1").refused(t, 502); !slices.Equal(got.Tried, []string{"node-1"}) {
						t.Errorf("after %v: %+v", wait, got)
					}
				}
				if got := w.ask("nobody"); got.StatusCode != 404 {
					t.Errorf("what nobody ever had: %d %s", got.StatusCode, got.body)
				}
				time.Sleep(time.Hour)
				if got := w.ask("node-1"); got.StatusCode != 404 {
					t.Errorf("after a day: %d %s", got.StatusCode, got.body)
				}
				w.fleet.Set(clustertest.Nodes(3)[1])
				gone.setDial(nil)
				gone.holds("it")
				if got := w.ask("node-1"); got.body != "it" {
					t.Errorf("when it is back: %d %s", got.StatusCode, got.body)
				}
			})
		})
	}
}

// What was handed over to a node that has died since is not known to be nowhere, whoever made it. A node that leaves hands on
// what it has, in its own time.
func TestWhatWasHandedToADeadNodeMayComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		leaves bool
		age    time.Duration // of what is asked for when the node goes
		want   int
	}{
		"dies":               {age: time.Hour, want: 502},
		"leaves":             {age: time.Hour, leaves: true, want: 404},
		"died before it was": {age: -time.Hour, want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(t *testing.T, w *world) {
				asked := "nobody?since=" + time.Now().Add(-c.age).UTC().Format(time.RFC3339)
				if c.leaves {
					w.fleet.Drain("node-1")
				}
				w.ask(asked)
				w.nodes["node-1"].kill()
				w.fleet.Kill("node-1")
				w.ask(asked)
				if got := w.ask(asked); c.age > 0 && got.StatusCode != 502 {
					t.Errorf("when it has just gone: %d %s", got.StatusCode, got.body)
				}
				time.Sleep(time.Minute)
				switch got := w.ask(asked); {
				case got.StatusCode != c.want:
					t.Errorf("%d %s, want %d", got.StatusCode, got.body, c.want)
				case c.want == 502 && !slices.Equal(got.refused(t, 502).Tried, []string{"node-1"}):
					t.Errorf("names %+v", got.refused(t, 502))
				}
				w.fleet.Set(clustertest.Nodes(3)[1])
				w.nodes["node-1"].setDial(nil)
				if got := w.ask(asked); got.StatusCode != 404 {
					t.Errorf("when it is back without it: %d %s", got.StatusCode, got.body)
				}
			})
		})
	}
}

// ask asks node-0 for what a node holds.
func (w *world) ask(holder string) reply {
	return w.do(http.MethodGet, "http://node-0/held/"+holder, "", "")
}

// A call that does something is given to one node only.
func TestActionsAreNotRepeated(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.nodes["node-1"].answerWith(broken(1 << 30))
		w.nodes["node-2"].holds("it")
		got := w.do(http.MethodPost, "http://node-0/held/node-1", "", "x").refused(t, 504)
		if got.Owner != "node-1" {
			t.Errorf("%+v", got)
		}
		w.took("x", "node-1")
		w.nodes["node-1"].kill()
		if got := w.do(http.MethodPost, "http://node-0/held/node-1", "", "y"); got.body != "it" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

func TestHoldersThatAreOutAreAskedLast(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		w.nodes["node-1"].setDial(hang)
		w.nodes["node-2"].holds("it")
		for i, want := range []time.Duration{5 * time.Second, 0} {
			if took := elapsed(func() { w.do(http.MethodGet, "http://node-0/held/node-1", "", "") }); took != want {
				t.Errorf("try %d took %v", i, took)
			}
		}
	})
}
