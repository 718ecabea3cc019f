package nodetest_test

import (
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
	"github.com/aquifer-fleet/aquifer/registry"
	"github.com/aquifer-fleet/aquifer/registry/registrytest"
)

// controlPlane is a double of Canalis on a machine of its own.
type controlPlane struct {
	*registrytest.Canalis
	t       *testing.T
	machine *nodetest.Machine
	server  *http.Server // nil: it is down
	running sync.WaitGroup
}

// governed runs a scenario on a stage whose node reports itself to a control plane.
func governed(t *testing.T, scene func(t *testing.T, s *stage, c *controlPlane), edit ...func(*node.Config)) {
	t.Helper()
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		c := &controlPlane{
			Canalis: registrytest.NewCanalis(f.Transport("canalis.test")), t: t,
			// A private address, as control planes have.
			machine: f.Net.MachineAt("canalis.test", "10.0.0.1"),
		}
		defer c.Close()
		defer c.down()
		c.up()
		scene(t, newStage(t, f, append(edit, reports)...), c)
	})
}

// reports has a node report itself to the control plane.
func reports(c *node.Config) { c.Registry.URL = "http://canalis.test:8080/register" }

// up starts the control plane.
func (c *controlPlane) up() {
	c.t.Helper()
	l, err := c.machine.Process().Listen(c.t.Context(), "tcp", ":8080")
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = &http.Server{Handler: c.Canalis, ErrorLog: log.New(io.Discard, "", 0)}
	c.running.Go(func() { _ = c.server.Serve(l) })
}

// down ends the control plane: its connections are cut, and new ones refused.
func (c *controlPlane) down() {
	_ = c.server.Close()
	c.running.Wait()
}

// knows reports whether the node, and it alone, is registered.
func (c *controlPlane) knows() bool {
	list := c.Instances()
	return len(list) == 1 && strings.HasSuffix(list[0], ":80")
}

// told is the last state that the control plane has taken.
func (c *controlPlane) told() registry.State {
	states := c.States()
	if len(states) == 0 {
		return ""
	}
	return states[len(states)-1]
}

// beats fails the test unless pings came at an interval, or up to a tenth of it earlier.
func (c *controlPlane) beats(interval time.Duration) {
	c.t.Helper()
	pings := c.Pings()
	if len(pings) < 2 {
		c.t.Errorf("%d pings", len(pings))
	}
	for i := 1; i < len(pings); i++ {
		if gap := pings[i].At.Sub(pings[i-1].At); gap > interval || gap < interval*9/10 {
			c.t.Fatalf("ping %d came after %v", i, gap)
		}
	}
}

// handIn has a caller hand in a job to the control plane.
func (s *stage) handIn(body string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://canalis.test:8080/jobs", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.Transport("caller.test").RoundTrip(req)
	if err != nil {
		s.t.Errorf("hand in: %v", err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("hand in: %v", err)
	}
	return resp.StatusCode, string(data)
}
