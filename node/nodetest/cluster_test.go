package nodetest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// region is a stage with several nodes that are one service.
type region struct {
	*stage
	provider string
	nodes    []*nodetest.Node
}

// together runs a scenario on a region of so many nodes.
func together(t *testing.T, provider string, size int, scene func(t *testing.T, r *region), edit ...func(*node.Config)) {
	t.Helper()
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		r := &region{
			stage: &stage{Fleet: f, t: t, target: f.Target("target.test"), receiver: f.Receiver("receiver.test")}, provider: provider,
		}
		for i := range size {
			r.nodes = append(r.nodes, f.NewNode(fmt.Sprint("node-", i), append([]func(*node.Config){takes(100, 10), synced}, edit...)...))
		}
		for _, n := range r.nodes {
			r.enroll(n, n.Name)
			n.Start()
		}
		r.node = r.nodes[0]
		for _, n := range r.nodes {
			f.Until(time.Minute, n.Name+" is ready", func() bool { return n.Client().Ready(t.Context()) == nil })
		}
		scene(t, r)
	})
}

// enroll makes a node the member of an id.
func (r *region) enroll(n *nodetest.Node, id string) {
	gossip := func(n *nodetest.Node) string { return n.Machine.Addr().String() + ":7946" }
	n.Configure(func(c *node.Config) {
		own := &c.Cluster
		own.Enabled, own.Provider, own.SelfID, own.SelfAddr = true, r.provider, id, n.URL()
		own.PeerSecret = []string{"a secret of the peers"}
		own.GossipAdvertise, own.Join = gossip(n), nil
		for _, seed := range r.nodes[:min(2, len(r.nodes))] { // two, that a seed that starts again finds the other one
			own.Join = append(own.Join, gossip(seed))
		}
		for _, m := range r.nodes {
			own.Members = append(own.Members, m.Name+"="+m.URL())
		}
	})
}

func providers(t *testing.T, size int, scene func(t *testing.T, r *region)) {
	t.Helper()
	for _, provider := range []string{"static", "gossip"} {
		t.Run(provider, func(t *testing.T) { together(t, provider, size, scene) })
	}
}

// named is the node on a machine.
func (r *region) named(machine string) *nodetest.Node {
	r.t.Helper()
	for _, n := range r.nodes {
		if n.Machine.Name() == machine {
			return n
		}
	}
	r.t.Fatal("no node is at " + machine)
	return nil
}

// settledAt is how a job went, as a node tells when it is over.
func (r *region) settledAt(n *nodetest.Node, id string) client.Job {
	r.t.Helper()
	r.node = n
	return r.settled(id)
}

// at hands a job in at a node, again and again until it is taken, as a careful client does.
func (r *region) at(n *nodetest.Node, sub client.Submission) string {
	r.t.Helper()
	for range 60 {
		ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
		got, err := n.Client().Submit(ctx, sub)
		cancel()
		if err == nil {
			return got.JobID
		}
		<-time.After(time.Second)
	}
	r.t.Fatalf("%s takes no job", n.Name)
	return ""
}

// idle waits until no node that runs has work.
func (r *region) idle() {
	r.t.Helper()
	for _, n := range r.nodes {
		if n.Running() {
			n.WaitIdle()
		}
	}
}

// owners are the nodes that called the target for each user.
func (r *region) owners() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, q := range r.target.Requests() {
		tenant, from := q.Header.Get("X-Tenant"), q.Header.Get("X-Aqueduct-Node-Id")
		if all[tenant] == nil {
			all[tenant] = map[string]int{}
		}
		all[tenant][from]++
	}
	return all
}

// Whatever node is called, each tenant's jobs are done by one, and any node tells of any job.
func TestAClusterIsOneService(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		var ids []string
		for i := range 60 {
			ids = append(ids, r.at(r.nodes[i%3], r.submission(labelled(fmt.Sprint("user-", i%12), i))))
		}
		r.idle()
		busy := map[string]bool{}
		for tenant, by := range r.owners() {
			if len(by) != 1 {
				t.Errorf("the jobs of %s were done by %v", tenant, by)
			}
			for name := range by {
				busy[name] = true
			}
		}
		if len(busy) != 3 {
			t.Errorf("only %v had work", busy)
		}
		for i, id := range ids {
			r.node = r.nodes[(i+1)%3]
			tells(t, r.get(id), "completed 200: 200; delivered after 1")
		}
		if _, err := r.node.Client().Get(t.Context(), strings.Repeat("0", 32)); err == nil {
			t.Error("a job that nobody has is shown")
		}
	})
}

// The log of a node says as which member it serves.
func TestAMemberSaysWhoItIs(t *testing.T) {
	providers(t, 2, func(t *testing.T, r *region) {
		want := fmt.Sprintf("node_id=node-1 cluster=%s member=node-1 member_address=http://node-1.test", strings.TrimPrefix(t.Name(), "TestAMemberSaysWhoItIs/"))
		if log := strings.Join(r.nodes[1].Log(), "\n"); !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	})
}

// A key that comes to all nodes at once is one job.
func TestID01_OneJobInACluster(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		sub := r.submission(user("everywhere"))
		seen := make(chan string, 30)
		for i := range 30 {
			go func() { seen <- r.at(r.nodes[i%3], sub) }()
		}
		ids := map[string]bool{}
		for range 30 {
			ids[<-seen] = true
		}
		r.idle()
		if len(ids) != 1 || r.calls() != 1 {
			t.Errorf("%d jobs, %d calls", len(ids), r.calls())
		}
	})
}

// A stream is followed through any node.
func TestAStreamThroughAnotherNode(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		r.target.Reply(nodetest.Text("done").Late(5 * time.Second))
		id := r.at(r.nodes[0], r.submission())
		for _, n := range r.nodes {
			var last string
			for e, err := range n.Client().Watch(t.Context(), id, "") {
				if err != nil {
					t.Fatalf("through %s: %v", n.Name, err)
				}
				last = e.Name
			}
			if last != "completed" {
				t.Errorf("through %s the last event is %q", n.Name, last)
			}
		}
		r.idle()
	})
}

// A node dies: the others take its tenants' new jobs, and it does its own when it is back.
func TestAClusterOutlivesANode(t *testing.T) {
	for _, by := range deaths() {
		t.Run(by.String(), func(t *testing.T) {
			providers(t, 3, func(t *testing.T, r *region) {
				r.target.Reply(nodetest.Text("done").Late(3 * time.Second))
				var ids []string
				add := func(n *nodetest.Node) {
					for i := range 20 {
						ids = append(ids, r.at(n, r.submission(user(fmt.Sprint("user-", i)))))
					}
				}
				add(r.nodes[0])
				r.nodes[1].Kill(by)
				add(r.nodes[0])
				add(r.nodes[2])
				<-time.After(10 * time.Second)
				r.nodes[1].Start()
				r.node = r.nodes[2]
				for _, id := range ids {
					r.Until(10*time.Minute, "job "+id+" is done", func() bool {
						j, err := r.nodes[2].Client().Get(t.Context(), id)
						return err == nil && j.Status == job.Completed
					})
				}
				r.idle()
			})
		})
	}
}

// Nodes leave one after another and come back while jobs come to the others: no caller is refused, and no job is lost.
func TestARollingRestart(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		ids := r.roll(func(*node.Config) {})
		r.idle()
		for _, id := range ids {
			tells(t, r.get(id), "completed 200: 200; delivered after 1")
		}
		if n := r.calls(); n != len(ids) {
			t.Errorf("%d calls for %d jobs", n, len(ids))
		}
	})
}

// roll restarts three nodes one after the other, each with a configuration that is changed, while jobs come to the
// others, which must take them all. It returns their ids.
func (r *region) roll(change func(*node.Config)) (ids []string) {
	r.t.Helper()
	for round, leaving := range r.nodes {
		done := make(chan []string)
		go func() {
			var mine []string
			for i := range 100 {
				n := r.nodes[(round+1+i%2)%3]
				got, err := n.Client().Submit(r.t.Context(), r.submission(user(fmt.Sprint("user-", i%15))))
				if err != nil {
					r.t.Errorf("%s refuses while %s is away: %v", n.Name, leaving.Name, err)
					continue
				}
				mine = append(mine, got.JobID)
				// Never just when the port is closed: who is cut off then may have been heard, and gets 504.
				<-time.After(37 * time.Millisecond)
			}
			done <- mine
		}()
		<-time.After(500 * time.Millisecond)
		leaving.Stop()
		leaving.Configure(change)
		leaving.Start()
		ids = append(ids, <-done...)
		r.Until(time.Minute, leaving.Name+" is back", func() bool { return leaving.Client().Ready(r.t.Context()) == nil })
	}
	return ids
}

// The secret of the peers is changed, and set at first, node by node: no call fails, and no node distrusts another.
func TestThePeerSecretIsChanged(t *testing.T) {
	const before, after = "the secret before", "the secret after this"
	together(t, "static", 3, func(t *testing.T, r *region) {
		for _, n := range r.nodes {
			n.KeepsWork = true // it goes on without what is handed over
		}
		var ids []string
		for _, secrets := range [][]string{nil, {before}, {before, after}, {after, before}, {after}} {
			ids = append(ids, r.roll(func(c *node.Config) { c.Cluster.PeerSecret = secrets })...)
			for _, n := range r.nodes {
				if refused := n.Gauge("aquifer_peer_refused_total"); refused != 0 {
					t.Errorf("with the secrets %q, %s has refused %v requests of others", secrets, n.Name, refused)
				}
			}
		}
		r.idle()
		for _, id := range ids {
			tells(t, r.get(id), "completed 200: 200; delivered after 1")
		}
		if n := r.calls(); n != len(ids) {
			t.Errorf("%d calls for %d jobs", n, len(ids))
		}
	})
}

// What only peers may say is not believed from anybody else.
func TestAClusterBelievesPeersOnly(t *testing.T) {
	together(t, "static", 2, func(t *testing.T, r *region) {
		for i := range 10 {
			body := fmt.Sprintf(`{"user_id":"user-%d","idempotent_key":"k","method":"GET","headers":{"X-Tenant":"user-%d"},"url":%q,"webhook_url":%q}`,
				i, i, r.target.URL("/"), r.receiver.URL("/"))
			for _, n := range r.nodes {
				r.node = n
				r.headersOf(body, map[string]string{"X-Aquifer-Cluster-Forwarded": "true", "Content-Type": "application/json"})
			}
		}
		r.idle()
		if n := r.calls(); n != 10 {
			t.Errorf("%d calls for 10 jobs", n)
		}
		if status, answer := r.ask(http.MethodPost, "/internal/handoff", "work"); status != 403 {
			t.Errorf("work of a stranger: %d %s", status, answer)
		}
		if status, answer := r.ask(http.MethodGet, "/health", ""); status != 200 || !strings.Contains(answer, `"cluster":{"self":{"id":"node-1"`) {
			t.Errorf("health: %d %s", status, answer)
		}
	})
}

// A node from which nothing is heard holds up a caller for 5 s if it cannot be connected to, and for 10 s if it may have
// taken the job.
func TestASilentNodeHoldsUpCallersForABoundedTime(t *testing.T) {
	together(t, "static", 3, func(t *testing.T, r *region) {
		first, second := r.nodes[0], r.nodes[1]
		tenant := r.tenantOf(second)
		submit := func() (took time.Duration, err error) {
			begin := time.Now()
			_, err = first.Client().Submit(t.Context(), r.submission(user(tenant)))
			return time.Since(begin), err
		}
		r.Net.Cut(first.Machine, second.Machine)
		if took, err := submit(); err != nil || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("without a connection: %v after %s", err, took)
		}
		r.Net.Heal(first.Machine, second.Machine)
		<-time.After(time.Minute) // until the node is known to be back
		if _, err := submit(); err != nil {
			t.Fatal(err)
		}
		r.Net.Cut(first.Machine, second.Machine)
		if took, err := submit(); err == nil || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("on a connection that is there: %v after %s", err, took)
		}
		r.Net.Heal(first.Machine, second.Machine)
		r.idle()
	})
}

// tenantOf is a user whose jobs are a node's.
func (r *region) tenantOf(n *nodetest.Node) string {
	r.t.Helper()
	for i := range 100 {
		name := fmt.Sprint("user-", i)
		if o, err := n.Client().Owner(r.t.Context(), name); err == nil && o.Local {
			return name
		}
	}
	r.t.Fatal("no tenant of " + n.Name)
	return ""
}
