package nodetest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// narrow lets answers be so large that there is memory for one of them.
func narrow(c *node.Config) {
	c.MemoryLimitMB, c.MaxResponseBytes = 8000, 1<<30
	c.ShutdownTimeoutSeconds = 10
}

// hog adds a target that announces a huge answer and sends the beginning of it, and submits a job to it.
func (s *stage) hog() (*nodetest.Server, string) {
	s.t.Helper()
	hog := s.Target("hog.test")
	hog.Reply(nodetest.Text(strings.Repeat("x", 200_000)).Announce(1 << 40).HangAfter(150_000))
	id := s.submit(to(hog.URL("/")), timeout(time.Minute))
	s.Until(time.Second, "memory taken", func() bool { return s.node.Gauge("aquifer_large_bodies_bytes") > 0 })
	return hog, id
}

// An answer for which there is no memory waits and is neither failed nor asked for again; small ones pass it.
func TestLargeAnswerWaitsForMemory(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		hog, first := s.hog()
		body := strings.Repeat("y", egress.ModestBody)
		s.target.Reply(nodetest.Text(body))
		start := time.Now()
		second := s.submit()
		s.Until(time.Second, "waiting", func() bool { return s.node.Gauge("aquifer_large_bodies_waiting") == 1 })
		tells(t, s.settled(s.submit(to(s.Target("small.test").URL("/")))), "completed 200: 200; delivered after 1")
		if waited := time.Since(start); waited > 10*time.Second {
			t.Errorf("a small answer waited for %v", waited)
		}
		hog.Reply(nodetest.Text("done"))
		tells(t, s.settled(second), "completed 200: 200; delivered after 1")
		tells(t, s.settled(first), "completed 200: timeout 200; delivered after 1")
		if n := len(s.target.Requests()); n != 1 {
			t.Errorf("the target was asked %d times", n)
		}
		if d := s.receiver.Of(second); len(d) != 1 || string(d[0].Message.Bytes()) != body {
			t.Errorf("%d deliveries", len(d))
		}
	}, narrow)
}

// A stop does not wait for memory.
func TestStopWhileAnAnswerWaitsForMemory(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		hog, first := s.hog()
		s.target.Reply(nodetest.Text(strings.Repeat("y", egress.ModestBody)))
		second := s.submit()
		s.Until(time.Second, "waiting", func() bool { return s.node.Gauge("aquifer_large_bodies_waiting") == 1 })
		s.node.KeepsWork = true
		if took := s.node.Stop(); took > 10*time.Second {
			t.Errorf("stopping took %v", took)
		}
		s.node.KeepsWork = false
		hog.Reply(nodetest.Text("done"))
		s.node.Start()
		for _, id := range []string{first, second} {
			tells(t, s.settled(id), "completed 200: crashed_worker 200; delivered after 1")
		}
	}, narrow)
}

// A delivery for whose payload there is no memory waits for the one that has it.
func TestLargeDeliveries(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text(strings.Repeat("y", egress.ModestBody)))
		s.receiver.Reply(nodetest.Status(http.StatusServiceUnavailable), nodetest.Status(http.StatusOK).Late(time.Second))
		var ids []string
		for range 3 {
			ids = append(ids, s.submit())
		}
		for _, id := range ids {
			if j := s.settled(id); j.Webhook.State != job.WebhookDelivered {
				t.Errorf("job went %s", story(j))
			}
		}
	}, takes(100, 3), narrow)
}
