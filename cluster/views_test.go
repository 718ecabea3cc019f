package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// node-0 has not heard of node-2 yet, and node-1 has.
func TestTheOtherNodeKnowsBetter(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-2", "node-1", "node-0")
		w.fleet.Hide("node-0", "node-2")
		got := w.post("node-0", key, "x").refused(t, 503) // node-0 would not know where node-2 is
		if got.Owner != "" {
			t.Errorf("%+v", got)
		}
		w.took("x")
		w.fleet.Reveal("node-0", "node-2")
		if got := w.post("node-0", key, "x"); got.body != "node-2" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

// node-0 takes node-1 for less than it is, and asks node-2, which names node-1.
func TestRequestsAreRedirectedOnce(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		w.nodes["node-0"].owners.Prune(t.Context(), "node-1", key)
		w.nodes["node-2"].owners.Heard("node-1")
		// A member that is passed over is told of, so node-2 takes it.
		if got := w.post("node-0", key, "x"); got.body != "node-2" {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2", "node-0")
		v := w.fleet.View("node-0") // its view alone is behind: node-1 is no longer draining
		v.Edit(func(r *cluster.Roster) { drainIn(r, "node-1") })
		got := w.post("node-0", key, "x")
		if got.body != "node-1" || w.nodes["node-0"].result("redirected") != 1 || w.nodes["node-2"].result("misplaced") != 1 {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
		if h := got.Header[cluster.OwnerHeader]; !slices.Equal(h, []string{"node-1"}) {
			t.Errorf("the owner is %v", h)
		}
		w.took("x", "node-1")
	})
}

func drainIn(r *cluster.Roster, ids ...string) {
	for i := range r.Members {
		if slices.Contains(ids, r.Members[i].ID) {
			r.Members[i].State = cluster.Draining
		}
	}
}

// What a target says in a header that is ours, and the owner relays, misleads nobody.
func TestTargetsDoNotSpeakForNodes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		for status, field := range map[int]string{503: "X-Aquifer-Cluster-Misplaced", 401: "X-Aquifer-Peer-Refused"} {
			w.nodes["node-1"].answerWith(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set(field, "node-2")
				rw.WriteHeader(status)
			})
			if got := w.post("node-0", key, field); got.StatusCode != status || got.Header.Get(cluster.OwnerHeader) != "node-1" {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
			w.took(field, "node-1")
		}
	})
}

// Nodes that name each other agree on nothing; nobody takes the request, and it goes to each once.
func TestNodesThatNameEachOther(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2", "node-0")
		w.fleet.View("node-1").Edit(func(r *cluster.Roster) { r.Members = weighing(r.Members, "node-2"); r.Self.Capacity = 1 })
		w.fleet.View("node-2").Edit(func(r *cluster.Roster) { r.Members = weighing(r.Members, "node-1"); r.Self.Capacity = 1 })
		w.post("node-0", key, "x").refused(t, 503)
		w.took("x")
		for id, h := range w.nodes {
			if n := h.count(&h.seen); n != 1 {
				t.Errorf("%s saw it %d times", id, n)
			}
		}
	})
}

// weighing makes one member weigh more than all others together, by far.
func weighing(members []cluster.Member, id string) []cluster.Member {
	for i := range members {
		members[i].Capacity = 1
		if members[i].ID == id {
			members[i].Capacity = 1 << 30
		}
	}
	return members
}

// Gossip gets lost: each node loses sight of any of the others and finds it again, and all connections
// work. Whoever is asked for a tenant, the same node takes it, all the time.
func TestCL03LostGossipMovesNoTenant(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		for _, h := range w.nodes {
			defer runForwarder(t, h.forwarder)()
			ownerOf(t, h.owners, "ada") // it has seen all of them once
		}
		rng := rand.New(rand.NewPCG(1, 2))
		names := slices.Sorted(maps.Keys(w.nodes))
		for round := range 120 {
			from, id := names[rng.IntN(4)], names[rng.IntN(4)]
			if rng.IntN(2) == 0 && from != id {
				w.fleet.Hide(from, id)
			} else {
				w.fleet.Reveal(from, id)
			}
			key, body := tenant(round), fmt.Sprint("round ", round)
			for _, asked := range names {
				if got := w.post(asked, key, body); got.StatusCode != 201 {
					t.Fatalf("%s: %s answered %d %s", body, asked, got.StatusCode, got.body)
				}
			}
			owner := wireOrder(nodes(4), key)[0]
			w.took(body, owner, owner, owner, owner)
			time.Sleep(time.Second)
		}
	})
}

func TestForwardsOfOthersAreAnsweredWhateverTheView(t *testing.T) {
	inWorldOf(t, 3, func(id string, c *cluster.ForwarderConfig) { c.Seal = seal(t, id) }, func(t *testing.T, w *world) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node-0/jobs", http.NoBody)
		req.Header.Set("X-Tenant", w.of("node-1"))
		req.Header.Set("X-Aquifer-Cluster-Forwarded", "true")
		got := w.send(req)
		if got.body != "node-0" || !slices.Equal(got.Header[cluster.OwnerHeader], []string{"node-0"}) {
			t.Errorf("%d %s %v", got.StatusCode, got.body, got.Header)
		}
	})
}
