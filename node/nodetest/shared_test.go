package nodetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// shares lets all nodes together call a target so much, and receivers as much as they like.
func shares(rps float64, concurrent int) func(*node.Config) {
	return func(c *node.Config) {
		takes(1000, 100)(c)
		c.Targets.Default.RPS, c.Targets.Default.MaxConcurrent, c.Targets.Default.Shared = rps, concurrent, true
	}
}

// learning is when a node of a test knows for sure that it divides with the others.
const learning = 12 * time.Second

// load gives a node work for a tenant of its own.
func (r *region) load(n *nodetest.Node, jobs int) {
	r.t.Helper()
	n.KeepsWork = true
	tenant := r.tenantOf(n)
	for range jobs {
		r.at(n, r.submission(user(tenant)))
	}
}

// watched is what a target was asked in a span of time.
type watched struct {
	*region
	from time.Time
	span time.Duration
	by   map[string][]time.Time // node
	most int                    // in any second
}

// watch counts calls in a span of time from now on.
func (r *region) watch(span time.Duration) watched {
	w := watched{region: r, from: time.Now(), span: span, by: map[string][]time.Time{}}
	<-time.After(span)
	var all []time.Time
	for _, q := range r.target.Requests() {
		if q.At.Before(w.from) {
			continue
		}
		name := q.Header.Get("X-Aqueduct-Node-Id")
		w.by[name] = append(w.by[name], q.At)
		all = append(all, q.At)
	}
	for first, last := 0, 0; last < len(all); last++ {
		for all[last].Sub(all[first]) >= time.Second {
			first++
		}
		w.most = max(w.most, last-first+1)
	}
	return w
}

// keeps expects that no second had more than most calls, and that each of these nodes had some in all of them.
func (w watched) keeps(what string, most int, nodes ...*nodetest.Node) {
	w.t.Helper()
	if w.most > most {
		w.t.Errorf("%s: %d calls in a second", what, w.most)
	}
	for _, n := range nodes {
		last := w.from
		for _, at := range append(w.by[n.Name], w.from.Add(w.span)) {
			if at.Sub(last) > time.Second {
				w.t.Fatalf("%s: no call of %s from %v to %v", what, n.Name, last.Sub(w.from), at.Sub(w.from))
			}
			last = at
		}
	}
}

// of is how many calls a node made.
func (w watched) of(n *nodetest.Node) int { return len(w.by[n.Name]) }

// Three nodes have 30 calls a second together. One is cut off from the others for a minute: it goes on with its part, and
// nobody takes more.
func TestPC11_ASharedTargetWhileANodeIsCutOff(t *testing.T) {
	for _, provider := range []string{"static", "gossip"} {
		t.Run(provider, func(t *testing.T) {
			together(t, provider, 3, func(t *testing.T, r *region) {
				<-time.After(learning)
				for _, n := range r.nodes {
					r.load(n, 900)
				}
				w := r.watch(5 * time.Second)
				w.keeps("before", 33, r.nodes...)
				for _, n := range r.nodes {
					if calls := w.of(n); calls < 48 || calls > 52 {
						t.Errorf("%s made %d calls in 5 s at a third of 30 a second", n.Name, calls)
					}
				}
				r.cut(r.nodes[2], true)
				r.watch(time.Minute).keeps("cut off", 33, r.nodes...)
				r.cut(r.nodes[2], false)
				r.watch(15*time.Second).keeps("healed", 33, r.nodes...)
			}, shares(30, 30))
		})
	}
}

// A node dies and is back, one joins and leaves: the nodes together keep to 30 calls a second, but for one part while views
// differ.
func TestPC11_ASharedTargetWhileNodesComeAndGo(t *testing.T) {
	together(t, "gossip", 3, func(t *testing.T, r *region) {
		most := 0
		for _, n := range r.nodes {
			r.load(n, 1000)
		}
		if w := r.watch(time.Second); w.most > 3 {
			t.Errorf("%d calls in a second before the nodes know each other", w.most)
		}
		<-time.After(learning)
		a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
		b.Kill(nodetest.ProcessDeath)
		w := r.watch(20 * time.Second)
		w.keeps("killed", 23, a, c)
		b.Start()
		w = r.watch(20 * time.Second)
		w.keeps("back", 33, a, c)
		if calls := w.of(b); calls < 80 {
			t.Errorf("the node that is back made %d calls in 20 s", calls)
		}

		d := r.NewNode("node-3", shares(30, 30), synced)
		r.nodes = append(r.nodes, d)
		r.enroll(d, d.Name)
		d.Start()
		w = r.watch(3 * time.Second)
		most = max(most, w.most)
		r.Until(time.Minute, "it is ready", func() bool { return d.Client().Ready(t.Context()) == nil })
		r.load(d, 300)
		w = r.watch(20 * time.Second)
		w.keeps("joined", 34, a, b, c)
		r.divides(d, 4)
		r.watch(5*time.Second).keeps("joined for good", 34, a, b, c, d)

		d.Stop()
		r.divides(a, 3)
		r.watch(5*time.Second).keeps("left", 33, a, b, c)
		most = max(most, w.most)
		if most > 40 {
			t.Errorf("%d calls in a second", most)
		}
	}, shares(30, 30))
}

// divides waits until a node divides what is shared with so many.
func (r *region) divides(n *nodetest.Node, nodes int) {
	r.t.Helper()
	r.Until(time.Minute, fmt.Sprint(n.Name, " divides by ", nodes), func() bool {
		r.node = n
		shown := r.shows()
		return shown.Shared != nil && shown.Shared.Nodes == nodes && shown.RPS.Configured == 30/float64(nodes)
	})
}

// In a cut that lasts the larger side takes over what is its own among those that it sees, and the smaller one does not.
func TestASharedTargetInALongCut(t *testing.T) {
	together(t, "gossip", 3, func(t *testing.T, r *region) {
		<-time.After(learning)
		for _, n := range r.nodes {
			r.load(n, 1)
			r.divides(n, 3)
		}
		r.cut(r.nodes[2], true)
		<-time.After(10 * time.Minute)
		for _, n := range r.nodes {
			r.divides(n, 3)
		}
		<-time.After(5 * time.Minute)
		r.divides(r.nodes[0], 2)
		r.divides(r.nodes[1], 2)
		r.divides(r.nodes[2], 3)
		r.cut(r.nodes[2], false)
		r.sees(3)
		for _, n := range r.nodes {
			r.divides(n, 3)
		}
	}, shares(30, 30))
}

// What is shared is shown as it is: the whole, by how many it is divided, and the part of this node.
func TestASharedTargetIsShown(t *testing.T) {
	together(t, "static", 3, func(t *testing.T, r *region) {
		r.load(r.nodes[0], 5)
		got := r.shows()
		if got.Shared == nil || *got.Shared != (shownShare{3, 30, 2}) || got.RPS.Configured != 10 || got.RPS.Effective != 10 ||
			got.MaxConcurrent.Configured != 1 {
			t.Errorf("shown as %+v, shared %+v", got, got.Shared)
		}
		if rps, slots := r.node.Gauge("aquifer_target_rps_configured"), r.node.Gauge("aquifer_target_max_concurrent"); rps < 10 || slots < 1 {
			t.Errorf("the gauges are at %v and %v", rps, slots)
		}
		if log := strings.Join(r.node.Log(), "\n"); !strings.Contains(log, "max_concurrent is shared by more nodes than it has") {
			t.Errorf("no warning in\n%s", log)
		}
		// An order is for the node that gets it.
		r.order(http.MethodPut, "/targets/target.test/limits", `{"rps": 24}`)
		if got := r.shows(); got.RPS.Configured != 24 || got.MaxConcurrent.Configured != 1 || got.Shared.RPS != 30 {
			t.Errorf("with an order shown as %+v", got)
		}
		r.order(http.MethodPut, "/targets/target.test/limits", `{"max_concurrent": 2}`)
		if got := r.shows(); got.RPS.Configured != 10 || got.MaxConcurrent.Configured != 2 {
			t.Errorf("with another order shown as %+v", got)
		}
		for _, n := range r.nodes {
			n.KeepsWork = false
		}
		r.idle()
	}, shares(30, 2))
}

// A node that is in no cluster shares with nobody.
func TestASharedTargetOfASingleNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for range 200 {
			s.submit()
		}
		if n := s.between(3 * time.Second); n < 88 || n > 92 {
			t.Errorf("%d calls in 3 s at 30 a second", n)
		}
		if got := s.shows(); got.Shared == nil || *got.Shared != (shownShare{1, 30, 30}) || got.RPS.Configured != 30 {
			t.Errorf("shown as %+v", got)
		}
	}, shares(30, 30))
}
