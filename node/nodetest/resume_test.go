package nodetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A node that died while it handed work over asks the peer that may have some of it, and the peer takes no work. It is
// the owner of its tenants all the same: a key that comes again through the node that asks is the job that is there.
func TestWhoRefusesAHandOverStaysAnOwner(t *testing.T) {
	together(t, "static", 3, func(t *testing.T, r *region) {
		asking, owner := r.nodes[0], r.nodes[1]
		owned := r.submission(user(r.tenantOf(owner)))
		ids := r.held()
		id := r.at(owner, owned)
		r.Net.Tap(func(s nodetest.Traffic) {
			if s.To == owner.Machine.Name() && strings.Contains(string(s.Data), " /internal/handoff ") {
				asking.Kill(nodetest.ProcessDeath)
			}
		})
		asking.Leave()
		r.Until(time.Minute, "the giver is dead", func() bool { return !asking.Running() })
		r.Net.Tap(nil)

		owner.Kill(nodetest.ProcessDeath)
		owner.Configure(func(c *node.Config) { c.DBMaxBytes = 1 })
		owner.Start()
		asking.Start()
		for i := range 60 {
			got := r.at(asking, owned)
			if got != id {
				t.Fatalf("after %d s the key of job %s became job %s", i, id, got)
			}
			<-time.After(time.Second)
		}
		if n := owner.Gauge("aquifer_handoff_jobs_total"); n == 0 {
			t.Error("the owner was asked for nothing")
		}
		owner.Kill(nodetest.ProcessDeath)
		owner.Configure(func(c *node.Config) { c.DBMaxBytes = node.Auto })
		owner.Start()
		r.runOnce(append(ids, id))
	})
}

// The last node of a cluster has nobody to hand work to: it goes on with what is due until that is done.
func TestTheLastNodeSettlesWhatIsDue(t *testing.T) {
	for name, size := range map[string]int{"the last one": 2, "the only one": 1} {
		t.Run(name, func(t *testing.T) {
			together(t, "gossip", size, func(t *testing.T, r *region) {
				r.target.Reply(nodetest.Text("done").Late(2 * time.Second))
				for _, n := range r.nodes[1:] {
					n.Stop()
				}
				var ids []string
				for i := range 5 {
					ids = append(ids, r.at(r.node, r.submission(user(fmt.Sprint("user-", i)))))
				}
				if took := r.node.Stop(); took < 10*time.Second || took > 15*time.Second {
					t.Errorf("stopping took %v, want the time of five calls after another", took)
				}
				r.node.Start()
				for _, id := range ids {
					tells(t, r.get(id), "completed 200: 200; delivered after 1")
				}
				if n := r.calls(); n != len(ids) {
					t.Errorf("%d calls for %d jobs", n, len(ids))
				}
			}, takes(100, 1))
		})
	}
}
