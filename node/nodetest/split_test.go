package nodetest_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// cut keeps a node from all others, for calls and for gossip, or heals that.
func (r *region) cut(one *nodetest.Node, cut bool) {
	var rest []netip.Addr
	for _, n := range r.nodes {
		if n == one {
			continue
		}
		rest = append(rest, n.Machine.Addr())
		if cut {
			r.Net.Cut(one.Machine, n.Machine)
		} else {
			r.Net.Heal(one.Machine, n.Machine)
		}
	}
	if cut {
		r.Gossip.Part([]netip.Addr{one.Machine.Addr()}, rest)
	} else {
		r.Gossip.Heal()
	}
}

// sees waits until all nodes that run see so many members.
func (r *region) sees(members int) {
	r.t.Helper()
	for _, n := range r.nodes {
		if !n.Running() {
			continue
		}
		r.Until(2*time.Minute, fmt.Sprint(n.Name, " sees ", members), func() bool {
			h, err := n.Client().Health(r.t.Context())
			return err == nil && h.Cluster != nil && h.Cluster.Members == members
		})
	}
}

// A network breaks between one node and the others, and is mended. Both sides take jobs meanwhile, every job that was
// taken is done, and afterwards each tenant has one owner again.
func TestAClusterIsCutInTwo(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		var ids []string
		add := func(round, users int) {
			for i := range users {
				ids = append(ids, r.at(r.nodes[i%3], r.submission(labelled(fmt.Sprintf("user-%d-%d", round, i%12), i))))
			}
		}
		add(0, 24)
		r.cut(r.nodes[2], true)
		add(1, 24)
		<-time.After(20 * time.Second)
		add(2, 24)
		r.cut(r.nodes[2], false)
		r.sees(3)
		<-time.After(time.Minute) // nobody is passed over any more
		add(3, 36)
		r.idle()
		for tenant, by := range r.owners() {
			if len(by) != 1 && strings.HasPrefix(tenant, "user-3") {
				t.Errorf("afterwards the jobs of %s were done by %v", tenant, by)
			}
		}
		for _, n := range r.nodes {
			r.node = n
			for _, id := range ids {
				if j := r.get(id); j.Status != job.Completed {
					t.Errorf("%s says that job %s went %q", n.Name, id, story(j))
				}
			}
		}
	})
}

// A second node of an id stays out, and says who is there; it comes in when that one is gone.
func TestASecondNodeOfAnId(t *testing.T) {
	together(t, "gossip", 3, func(t *testing.T, r *region) {
		first := r.nodes[1]
		second := r.NewNode("second", takes(100, 10), synced)
		r.enroll(second, first.Name)
		second.Start()
		<-time.After(time.Minute)
		if err := second.Client().Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "http://node-1.test") {
			t.Errorf("it says %v", err)
		}
		if _, err := second.Client().Submit(t.Context(), r.submission()); err == nil {
			t.Error("it takes a job")
		}
		for i := range 30 {
			tells(t, r.settledAt(r.nodes[i%3], r.at(r.nodes[i%3], r.submission(user(fmt.Sprint("user-", i))))), "completed 200: 200; delivered after 1")
		}
		first.Kill(nodetest.ProcessDeath)
		r.Until(time.Minute, "it comes in", func() bool { return second.Client().Ready(t.Context()) == nil })
		r.sees(3)
		second.Stop()
		first.Start()
	})
}

// All nodes die and come back at other addresses, where they look for each other at the old ones, too.
func TestAClusterMoves(t *testing.T) {
	together(t, "gossip", 3, func(t *testing.T, r *region) {
		r.target.Reply(nodetest.Text("done").Late(10 * time.Second))
		var ids []string
		for i := range 30 {
			ids = append(ids, r.at(r.nodes[i%3], r.submission(user(fmt.Sprint("user-", i)))))
		}
		for _, n := range r.nodes {
			n.Kill(nodetest.ProcessDeath)
		}
		join := []string{r.nodes[0].Machine.Addr().String(), "20.0.9.1"}
		for i, n := range r.nodes {
			n.Machine = r.Net.MachineAt(n.Machine.Name(), fmt.Sprint("20.0.9.", i+1))
			n.Configure(func(c *node.Config) {
				c.Cluster.GossipAdvertise, c.Cluster.Join = n.Machine.Addr().String()+":7946", join
			})
		}
		for _, n := range r.nodes {
			n.Start()
		}
		r.sees(3)
		r.idle()
		for _, id := range ids {
			if j := r.settledAt(r.nodes[0], id); j.Status != job.Completed {
				t.Errorf("job %s went %q", id, story(j))
			}
		}
	})
}
