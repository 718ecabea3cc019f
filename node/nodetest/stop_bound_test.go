package nodetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// bounded lets a node have so many seconds to stop.
func bounded(seconds int) func(*node.Config) {
	return func(c *node.Config) { c.ShutdownTimeoutSeconds = seconds }
}

// late are the steps of the last stop of a node that it did not wait for to the end.
func late(n *nodetest.Node) (steps []string) {
	for _, line := range n.Log() {
		if _, step, found := strings.Cut(line, "not stopped in time step="); found {
			steps = append(steps, step)
		}
	}
	return steps
}

// A caller who does not read his answer holds a stop up for a while, and is cut off then: the server is closed before
// the store. The answer is recorded, and delivered by the next process.
func TestStopBesideAReaderThatHangs(t *testing.T) {
	for _, seconds := range []int{1, 4, 30} {
		play(t, func(t *testing.T, s *stage) {
			s.target.Reply(nodetest.Text(strings.Repeat("x", 3<<20)))
			c := s.dial(s.node, callOf(s.submission()))
			defer c.hangUp()
			<-time.After(100 * time.Millisecond)
			s.node.KeepsWork = true
			if took := s.node.Stop(); took > time.Duration(seconds)*time.Second {
				t.Errorf("stopping took %v of %d s", took, seconds)
			}
			if got := late(s.node); slices.ContainsFunc(got, func(step string) bool { return step != "requests" }) {
				t.Errorf("of %d s, not in time: %q", seconds, got)
			}
			s.node.KeepsWork = false
			s.node.Start()
			s.node.WaitIdle()
			tells(t, s.get(s.only().JobID), "completed 200: 200; delivered after 1")
			if n := s.calls(); n != 1 {
				t.Errorf("%d calls", n)
			}
		}, bounded(seconds), func(c *node.Config) { c.MemoryLimitMB = 0 })
	}
}

// When the time for work is over, what is open is cut while the hand-over still hangs: all steps end in time, and the answer
// that came just before is recorded and not asked for again.
func TestStopBesideAHandOverThatHangs(t *testing.T) {
	pair(t, func(t *testing.T, r *region, tenant string) {
		leaving, taker := r.nodes[0], r.nodes[1]
		r.target.Answer(func(q nodetest.Request) nodetest.Reply {
			if q.Header.Get("X-N") == "0" {
				return nodetest.Text("done").Late(24900 * time.Millisecond)
			}
			return nodetest.Hang()
		})
		answered := r.at(leaving, r.submission(labelled(tenant, 0)))
		hanging := r.at(leaving, r.submission(labelled(tenant, 1)))
		r.Until(time.Minute, "both are open", func() bool { return r.calls() == 2 })
		r.at(leaving, r.submission(labelled(tenant, 2)))
		r.Net.Cut(leaving.Machine, taker.Machine)
		start := time.Now()
		leaving.KeepsWork = true
		leaving.Leave()
		if took := leaving.Left(start); took > 30*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := late(leaving); slices.ContainsFunc(got, func(step string) bool { return step != "open attempts" }) {
			t.Errorf("not in time: %q", got)
		}
		r.Net.Heal(leaving.Machine, taker.Machine)
		r.target.Reply(nodetest.Text("done"))
		leaving.Start()
		r.node = leaving
		tells(t, r.settled(answered), "completed 200: 200; delivered after 1")
		tells(t, r.settled(hanging), "completed 200: crashed_worker 200; delivered after 1")
	}, takes(100, 2), bounded(30))
}
