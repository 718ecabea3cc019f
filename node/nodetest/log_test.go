package nodetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// On level debug the log tells a job's whole life, and nothing of what it carries.
func TestLogTellsTheLifeOfAJob(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		const secret = "hunter2"
		s.target.Reply(nodetest.Status(503), nodetest.Reset(), nodetest.Text(secret).Late(100*time.Millisecond))
		s.receiver.Reply(nodetest.Status(500).Body(secret), nodetest.Status(204))
		id := s.submit(to(s.target.URL("/work?key="+secret)), func(sub *client.Submission) {
			sub.Body, sub.WebhookURL = []byte(secret), s.receiver.URL("/hook?key="+secret)
		})
		s.settled(id)
		accepted := 0 // is said beside the first attempt, in no order
		var told []string
		for _, line := range s.node.Log() {
			if strings.Contains(line, secret) {
				t.Errorf("the log tells a secret: %s", line)
			}
			_, life, ok := strings.Cut(line, " DEBUG ")
			switch life = strings.Replace(life, " job_id="+id, "", 1); {
			case !ok, !strings.Contains(line, id):
			case life == "job accepted":
				accepted++
			default:
				told = append(told, life)
			}
		}
		want := []string{
			"attempt begun target=target.test attempt=1",
			"attempt ended target=target.test attempt=1 status=503 reason= duration_ms=",
			"retry scheduled target=target.test attempt=2 retry_wait_ms=",
			"attempt begun target=target.test attempt=2",
			"attempt ended target=target.test attempt=2 status=0 reason=conn_closed_before_response duration_ms=",
			"retry scheduled target=target.test attempt=3 retry_wait_ms=",
			"attempt begun target=target.test attempt=3",
			"attempt ended target=target.test attempt=3 status=200 reason= duration_ms=",
			"job ended target=target.test outcome=completed attempt=3 status=200 reason=",
			"webhook failed target=receiver.test state=pending attempt=1 status=500 reason= duration_ms=",
			"webhook delivered target=receiver.test state=delivered attempt=2 status=204 reason= duration_ms=",
		}
		for i, line := range told {
			if i >= len(want) || !strings.HasPrefix(line, want[i]) {
				t.Errorf("line %d is %q", i, line)
			}
		}
		if len(told) != len(want) || accepted != 1 {
			t.Errorf("the log tells %d steps, want %d; it says %d times that the job is accepted", len(told), len(want), accepted)
		}
	})
}
