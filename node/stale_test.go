package node

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// health is what a node says of itself.
func (n *neighbor) health() string {
	n.t.Helper()
	return n.ask(http.MethodGet, "/health", "").body
}

// The nodes of a cluster that loses its Valkey go on without it, as what each says to the others is heard, and all of
// them take jobs for all tenants.
func TestAClusterLosesItsValkey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var nodes []*neighbor
	for _, name := range []string{"a", "b"} {
		at := fmt.Sprint("127.0.0.1:", valkeytest.FreePort(t))
		nodes = append(nodes, w.node(name, "AQUIFER_LISTEN="+at, "AQUIFER_CLUSTER_ENABLED=true", "AQUIFER_CLUSTER_PROVIDER=valkey",
			"AQUIFER_CLUSTER_SELF_ID="+name, "AQUIFER_CLUSTER_SELF_ADDR=http://"+at, "AQUIFER_CLUSTER_HEARTBEAT_SECONDS=1",
			"AQUIFER_CLUSTER_INSTANCE_TTL_SECONDS=5", "AQUIFER_PEER_SECRET=a secret of these two", "AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=25"))
	}
	for _, n := range nodes {
		until(t, `"members":2`, n.health)
	}
	w.Kill()
	refused := 0 // a node that has not been run for a while is not heard, and waits for a word of the other
	submit := func(round int) {
		t.Helper()
		for i := range 10 {
			body := fmt.Sprintf(
				`{"user_id":"user-%d","idempotent_key":"key-%d","method":"POST","url":"%s/","webhook_url":"%s/"}`, i, round, w.target.URL, w.receiver.URL)
			got := nodes[i%2].ask(http.MethodPost, "/jobs", body)
			for try := 0; got.code == http.StatusServiceUnavailable && try < 200; try++ {
				refused++
				time.Sleep(100 * time.Millisecond)
				got = nodes[i%2].ask(http.MethodPost, "/jobs", body)
			}
			if got.code != http.StatusCreated {
				t.Errorf("round %d: %d %s", round, got.code, got.body)
			}
		}
	}
	const rounds = 120 // for 12 s: more than twice as long as a heartbeat lives
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for round := range rounds {
		submit(round)
		<-tick.C
	}
	if refused > 5*rounds {
		t.Errorf("%d of %d jobs were refused at first", refused, 10*rounds)
	}
	for _, n := range nodes {
		valkeytest.Until(t, func() error {
			if h := n.health(); !strings.Contains(h, `"stale_since":1`) {
				return fmt.Errorf("the node does not say that it goes on with what it knew: %s", h)
			}
			if got := n.ask(http.MethodGet, "/ready", ""); got.code != http.StatusOK {
				return fmt.Errorf("not ready: %s", got.body)
			}
			return nil
		})
	}
	w.Restart()
	for _, n := range nodes {
		valkeytest.Until(t, func() error {
			if h := n.health(); strings.Contains(h, "stale_since") || !strings.Contains(h, `"members":2`) {
				return fmt.Errorf("got %s", h)
			}
			return nil
		})
	}
	submit(rounds)
}
