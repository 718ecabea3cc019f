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

// restarted stops a node and starts it with other secrets.
func (r *region) restarted(n *nodetest.Node, secrets ...string) {
	r.t.Helper()
	n.KeepsWork = true
	if n.Running() {
		n.Stop()
	}
	n.Configure(func(c *node.Config) { c.Cluster.PeerSecret = secrets })
	n.Start()
}

func (r *region) ready(n *nodetest.Node) bool { return n.Client().Ready(r.t.Context()) == nil }

// readies waits for the nodes to settle, and tells who is ready.
func (r *region) readies() (names string) {
	<-time.After(20 * time.Second)
	for _, n := range r.nodes {
		if r.ready(n) {
			names += n.Name + " "
		}
	}
	return names
}

// logged counts the lines of a node's log that have a text.
func logged(n *nodetest.Node, text string) (lines int) {
	for _, line := range n.Log() {
		if strings.Contains(line, text) {
			lines++
		}
	}
	return lines
}

const (
	shared = "a secret of the peers" // that of a region
	wrong  = "a secret of its own"
)

// A node of another secret is in the view of the others, who believe nothing it says: it takes nothing, says why, and
// keeps nobody else from taking it. One other node that believes it is enough.
func TestANodeOfAnotherSecretTakesNothing(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		odd, others := r.nodes[2], r.nodes[:2]
		r.restarted(odd, wrong)
		for range 200 {
			for _, n := range others {
				if !r.ready(n) {
					t.Fatalf("%s is not ready", n.Name)
				}
			}
			if r.ready(odd) {
				t.Fatal("the node that nobody believes is ready")
			}
			<-time.After(50 * time.Millisecond)
		}
		const jobs = 40
		for i := range jobs {
			body := fmt.Sprintf(`{"user_id":"user-%d","idempotent_key":"k","method":"POST","url":%q,"webhook_url":%q}`,
				i, r.target.URL("/"), r.receiver.URL("/"))
			r.node = odd
			status, h, answer := r.send(http.MethodPost, "/jobs", strings.NewReader(body), nil)
			if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(answer, "AQUIFER_PEER_SECRET") {
				t.Errorf("answered %d %s", status, answer)
			}
			r.node = others[i%2]
			if status, answer := r.ask(http.MethodPost, "/jobs", body); status != 201 {
				t.Errorf("another one: %d %s", status, answer)
			}
		}
		r.node = odd
		if status, answer := r.ask(http.MethodGet, "/ready", ""); status != 503 || !strings.Contains(answer, "AQUIFER_PEER_SECRET") {
			t.Errorf("ready: %d %s", status, answer)
		}
		if _, answer := r.ask(http.MethodGet, "/health", ""); !strings.Contains(answer, `"unsettled":"all nodes that answer refuse`) {
			t.Errorf("health: %s", answer)
		}
		r.idle()
		if n := r.calls(); n != jobs {
			t.Errorf("%d calls for %d jobs", n, jobs)
		}
		r.restarted(others[0], shared, wrong)
		r.Until(time.Minute, "all are ready", func() bool { return r.ready(odd) && r.ready(others[0]) && r.ready(others[1]) })
		<-time.After(time.Minute)
		if w, e := logged(odd, "the node takes no work"), logged(odd, "the node takes work again"); w != 1 || e != 1 {
			t.Errorf("logged %d times, and %d times that it is over", w, e)
		}
	})
}

// Who starts first finds nobody who refuses it, and is found out when there is somebody.
func TestANodeOfAnotherSecretStartsFirst(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		for _, n := range r.nodes {
			n.Stop()
		}
		r.restarted(r.nodes[0], wrong)
		r.Until(time.Minute, "it is alone", func() bool { return r.ready(r.nodes[0]) })
		r.nodes[1].Start()
		r.nodes[2].Start()
		if names := r.readies(); names != "node-1 node-2 " {
			t.Errorf("ready are %s", names)
		}
	})
}

// Of two nodes that refuse each other the one stays that was there, and of two that start together, or meet, one.
func TestTwoNodesOfDifferentSecrets(t *testing.T) {
	providers(t, 2, func(t *testing.T, r *region) {
		for i, n := range r.nodes {
			r.restarted(n, wrong)
			stays := r.nodes[1-i]
			if names := r.readies(); names != stays.Name+" " {
				t.Errorf("%s has another secret, and ready are %s", n.Name, names)
			}
			before := r.calls()
			for j := range 10 {
				sub := r.submission(user(fmt.Sprint("user-", j)))
				if got, err := n.Client().Submit(t.Context(), sub); err == nil {
					t.Errorf("%s takes %s", n.Name, got.JobID)
				}
				if _, err := stays.Client().Submit(t.Context(), sub); err != nil {
					t.Errorf("%s takes no job: %v", stays.Name, err)
				}
			}
			r.idle()
			if calls := r.calls() - before; calls != 10 {
				t.Errorf("%d calls for 10 jobs", calls)
			}
			r.restarted(n, shared)
			if names := r.readies(); names != "node-0 node-1 " {
				t.Errorf("ready again are %s", names)
			}
		}
		r.nodes[0].Stop()
		r.restarted(r.nodes[1], wrong)
		r.nodes[0].Start()
		if names := r.readies(); len(strings.Fields(names)) != 1 {
			t.Errorf("ready are %s", names)
		}
		r.Net.Cut(r.nodes[0].Machine, r.nodes[1].Machine)
		<-time.After(time.Minute)
		if names := r.readies(); names != "node-0 node-1 " {
			t.Errorf("cut off from each other, ready are %s", names)
		}
		r.Net.Heal(r.nodes[0].Machine, r.nodes[1].Machine)
		<-time.After(time.Minute)
		if names := r.readies(); len(strings.Fields(names)) != 1 {
			t.Errorf("back together, ready are %s", names)
		}
	})
}

// Two halves of a cluster that refuse each other go on, each of the nodes being believed by one.
func TestTwoHalvesOfDifferentSecrets(t *testing.T) {
	providers(t, 4, func(t *testing.T, r *region) {
		r.restarted(r.nodes[2], shared, wrong)
		r.restarted(r.nodes[3], wrong)
		r.restarted(r.nodes[2], wrong)
		if names := r.readies(); names != "node-0 node-1 node-2 node-3 " {
			t.Errorf("ready are %s", names)
		}
	})
}

// A node that the others refuse, and that believes them, gets none of the work that one of them hands over.
func TestANodeOfAnotherSecretIsHandedNothing(t *testing.T) {
	together(t, "static", 3, func(t *testing.T, r *region) {
		leaving, next, odd := r.nodes[0], r.nodes[1], r.nodes[2]
		r.restarted(odd, wrong, shared)
		if names := r.readies(); names != "node-0 node-1 " {
			t.Fatalf("ready are %s", names)
		}
		r.target.Answer(func(q nodetest.Request) nodetest.Reply {
			switch by := q.Header.Get("X-Aqueduct-Node-Id"); by {
			case leaving.Name:
				return nodetest.Status(503).With("Retry-After", "600")
			case odd.Name:
				t.Errorf("%s has a job", by)
			}
			return nodetest.Text("done")
		})
		for i := range 40 {
			r.at(leaving, r.submission(user(fmt.Sprint("user-", i))))
		}
		waiting := leaving.Gauge("aquifer_queue_backlog")
		leaving.KeepsWork = true // its gauges show what it has handed over, too
		leaving.Stop()
		next.WaitIdle()
		if n := next.Gauge("aquifer_handoff_jobs_total"); n != waiting || n == 0 {
			t.Errorf("of %v jobs the other one has got %v", waiting, n)
		}
		leaving.Start()
		r.idle()
	})
}

// A node that is refused asks each second whether that is so yet, which does not fill the logs of those that it asks.
func TestANodeOfAnotherSecretFillsNoLog(t *testing.T) {
	together(t, "static", 2, func(t *testing.T, r *region) {
		r.restarted(r.nodes[1], wrong)
		<-time.After(time.Hour)
		if n := logged(r.nodes[0], "peer refused"); n == 0 || n > 61 {
			t.Errorf("%d lines in an hour", n)
		}
		if logged(r.nodes[0], "claims="+r.nodes[1].Name) == 0 {
			t.Error("no line says who it is")
		}
	})
}
