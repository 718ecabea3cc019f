package nodetest_test

import (
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A waiting job says what for, where it stands and how long it may take.
func TestAWaitExplainsItself(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503), nodetest.Status(429).With("Retry-After", "30"), nodetest.Text("done").Late(4*time.Second))
		first := s.submit()
		<-time.After(500 * time.Millisecond)
		if w := s.get(first).Waiting; w == nil || w.For != "backoff" || w.Position != 0 || w.ETAMS < 400 || w.ETAMS > 1100 {
			t.Errorf("after a 503: %+v", w)
		}
		s.Until(time.Minute, "told to wait", func() bool { return s.calls() == 2 })
		if w := s.get(first).Waiting; w == nil || w.For != "retry_after" || w.ETAMS < 29_000 || w.ETAMS > 30_000 {
			t.Errorf("after a 429: %+v", w)
		}
		s.Until(time.Minute, "sent again", func() bool { return s.calls() == 3 })
		if w := s.get(first).Waiting; w != nil {
			t.Errorf("while it is sent: %+v", w)
		}
		second, third := s.submit(user("other")), s.submit(user("other"))
		if w := s.get(third).Waiting; w == nil || w.Position != 2 || w.For == "" || w.Since != time.Now().UnixMilli() {
			t.Errorf("behind another: %+v", w)
		}
		s.node.WaitIdle()
		for _, id := range []string{first, second, third} {
			if w := s.get(id).Waiting; w != nil {
				t.Errorf("afterwards: %+v", w)
			}
		}
	}, takes(1000, 1), func(c *node.Config) { c.StreamDeliveryWaitMS = 0 })
}

// Words of a target that nobody can read are recorded, and the wait is the node's own.
func TestAWaitThatTheTargetHasNotAskedFor(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(429).With("Retry-After", "soon"), nodetest.Text("done"))
		id := s.submit()
		<-time.After(500 * time.Millisecond)
		j := s.get(id)
		if w := j.Waiting; w == nil || w.For != "backoff" || j.Attempts[0].RetryAfter != "soon" {
			t.Errorf("after %+v the job waits for %+v", j.Attempts, w)
		}
	}, takes(1000, 1))
}
