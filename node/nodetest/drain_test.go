package nodetest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// handedOver is a node in drain mode that tells a sink.
func handedOver(url string) func(*node.Config) {
	return func(c *node.Config) {
		c.Drain.Enabled, c.Drain.WebhookURL = true, url
		c.Pacing.IdleTimeoutSeconds = 60
	}
}

// told are the keys of the jobs that the sink was told of.
func (s *stage) told(sink *nodetest.Server) []string {
	s.t.Helper()
	var keys []string
	for _, r := range sink.Requests() {
		var batch struct {
			Entries []struct {
				JobID string `json:"job_id"`
			} `json:"ledger"`
		}
		if err := json.Unmarshal(r.Body, &batch); err != nil {
			s.t.Fatalf("%v in %s", err, r.Body)
		}
		for _, e := range batch.Entries {
			keys = append(keys, e.JobID)
		}
	}
	return keys
}

// A node that has been idle for long enough tells the sink of all that has ended, and then forgets exactly that.
func TestANodeIsHandedOver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		sink := s.Target("sink.test")
		first, second := s.submit(), s.submit(user("other"))
		s.node.WaitIdle()
		if status, answer := s.ask(http.MethodGet, "/health", ""); status != 200 || !strings.Contains(answer, `"drain":{"state":"active"`) {
			t.Errorf("health: %d %s", status, answer)
		}
		s.Until(10*time.Minute, "handed over", func() bool { return len(s.told(sink)) == 2 })
		<-time.After(time.Second)
		for _, id := range []string{first, second} {
			if _, err := s.node.Client().Get(t.Context(), id); err == nil {
				t.Errorf("job %s is still known", id)
			}
		}
		third := s.submit()
		s.node.WaitIdle()
		s.Until(10*time.Minute, "handed over again", func() bool { return len(s.told(sink)) == 3 })
		if got := s.told(sink); got[2] != third {
			t.Errorf("told of %v", got)
		}
	}, handedOver("http://sink.test/"), takes(100, 10))
}

// What the sink does not take is kept and told again, also by the next process, and nothing is forgotten before.
func TestTheLedgerOutlivesASinkThatFails(t *testing.T) {
	for _, by := range deaths() {
		t.Run(by.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.node.MayFail = true
				sink := s.Target("sink.test")
				sink.Reply(nodetest.Status(500))
				id := s.submit()
				s.node.WaitIdle()
				s.Until(10*time.Minute, "told in vain", func() bool { return len(sink.Requests()) > 2 })
				s.node.Kill(by)
				sink.Reply(nodetest.Status(200))
				before := len(s.told(sink))
				s.node.Start()
				tells(t, s.get(id), "completed 200: 200; delivered after 1")
				s.Until(10*time.Minute, "told again", func() bool { return len(s.told(sink)) == before+1 })
				if got := s.told(sink); got[before] != id {
					t.Errorf("told of %v", got)
				}
			}, handedOver("http://sink.test/"), synced)
		})
	}
}

// A node that stops tells what it has to tell, once.
func TestAStopTellsTheSink(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		sink := s.Target("sink.test")
		id := s.submit()
		s.node.WaitIdle()
		s.node.Stop()
		if got := s.told(sink); len(got) != 1 || got[0] != id {
			t.Errorf("told of %v", got)
		}
		s.node.Start()
		<-time.After(10 * time.Minute)
		if got := s.told(sink); len(got) != 1 {
			t.Errorf("told of %v", got)
		}
	}, handedOver("http://sink.test/"))
}

// Drain mode without somebody to tell does not start.
func TestDrainModeNeedsItsSink(t *testing.T) {
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		for setting, edit := range map[string]func(*node.Config){
			"AQUIFER_DRAIN_WEBHOOK_URL": handedOver(""),
			"AQUIFER_DRAIN_SINK":        func(c *node.Config) { c.Drain.Enabled, c.Drain.Sink = true, "pigeon" },
		} {
			if err := f.NewNode(setting, edit).TryStart(); err == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("started: %v", err)
			}
		}
	})
}
