package nodetest_test

import (
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// What only nodes may say to each other does not count from a stranger, also when the node that he calls brings it to
// another one.
func TestDirectOnlyOfAStranger(t *testing.T) {
	together(t, "static", 2, func(t *testing.T, r *region) {
		for _, n := range r.nodes {
			r.node = n
			r.target.Reply(nodetest.Status(503), nodetest.Text("done"))
			got := r.callWith(callOf(r.submission(), `"direct_only":true`))
			r.fellBack(got, "upstream_overloaded", "proxy_fallback queued dispatching completed")
			tells(t, r.settled(got.id()), "completed 200: 503 200; skipped")
			<-time.After(10 * time.Second) // the breaker
		}
		if by := r.owners(); len(by) != 1 || len(by[""]) != 1 {
			t.Errorf("called by %v", by)
		}
	})
}
