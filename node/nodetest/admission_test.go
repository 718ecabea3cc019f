package nodetest_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// pending bounds the unfinished jobs of a target.
func pending(n int) func(*node.Config) {
	return func(c *node.Config) { c.Pacing.MaxPendingPerUpstream = n }
}

// tries hands in a job and returns why it was refused, and when to come again; "" if it was not.
func (s *stage) tries(edit ...func(*client.Submission)) (reason string, again time.Duration) {
	s.t.Helper()
	_, err := s.node.Client().Submit(s.t.Context(), s.submission(edit...))
	if err == nil {
		return "", 0
	}
	var refusal *fault.Error
	if !errors.As(err, &refusal) || refusal.Limit == nil {
		s.t.Fatalf("submit: %v", err)
	}
	return refusal.Limit.Reason, refusal.RetryAfter
}

// wants fails the test unless a job is refused for this reason, "" for not at all.
func (s *stage) wants(reason string, edit ...func(*client.Submission)) {
	s.t.Helper()
	got, again := s.tries(edit...)
	if got != reason || got != "" && again != 5*time.Second {
		s.t.Fatalf("refused for %q with Retry-After %v, want %q", got, again, reason)
	}
}

// headersOf hands in a body as it is and returns the headers of the answer.
func (s *stage) headersOf(body string, headers map[string]string) http.Header {
	s.t.Helper()
	_, h, _ := s.send(http.MethodPost, "/jobs", strings.NewReader(body), headers)
	return h
}

// A tenant that has filled a target does not shut out one that asks for little: at 110 % of the budget the
// quiet one still joins, and the busy one is told that it has more than its share.
func TestFA01_QuietTenantJoinsAFullTarget(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.target.Reply(nodetest.Text("done").Late(time.Hour))
		for i := range 100 {
			s.wants("", labelled("busy", i))
		}
		s.wants("upstream_queue", labelled("busy", 100))
		for i := range 10 {
			s.wants("", labelled("quiet", i))
		}
		s.wants("queue_fair_share", labelled("busy", 101))
		s.wants("", labelled("quiet", 11))
	}, takes(0.25, 1), pending(100))
}

// What is refused leaves nothing behind: the key is free, and the target has as much as before.
func TestARefusedJobLeavesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(time.Second))
		sub := s.submission()
		for range 5 {
			s.submit()
		}
		for range 20 {
			if _, err := s.node.Client().Submit(t.Context(), sub); err == nil {
				t.Fatal("accepted beyond the budget")
			}
		}
		s.node.WaitIdle()
		got, err := s.node.Client().Submit(t.Context(), sub)
		if err != nil || got.Duplicate {
			t.Fatalf("afterwards: %+v, %v", got, err)
		}
		s.node.WaitIdle()
		if n := len(s.target.Requests()); n != 6 {
			t.Errorf("%d calls", n)
		}
	}, takes(10, 1), pending(5))
}

// Who runs a job again is told how full the target is too.
func TestARefusedRedriveTellsTheLoad(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first"), nodetest.Text("done").Late(time.Second))
		first := s.submit()
		s.node.WaitIdle()
		s.submit()
		status, h, answer := s.send(http.MethodPost, "/jobs/"+first+"/redrive", nil, nil)
		if status != http.StatusTooManyRequests || h.Get("X-Aqueduct-Upstream-Backlog") != "1" || h.Get("X-Aqueduct-Queue-Backlog") != "1" || h.Get("X-Aqueduct-Active-Queues") != "1" || !strings.Contains(answer, `"current":1`) || h.Get("X-Aquifer-Admission-Pressure") != "1.000" {
			t.Errorf("answered %d %v %s", status, h, answer)
		}
		s.node.WaitIdle()
	}, takes(10, 1), pending(1))
}

// A known key is answered, and what is accepted goes on, whatever is refused.
func TestDuplicatesPassAFullTarget(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(time.Second))
		first := s.submission()
		if _, err := s.node.Client().Submit(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		s.wants("upstream_queue")
		got, err := s.node.Client().Submit(t.Context(), first)
		if err != nil || !got.Duplicate {
			t.Errorf("the same key: %+v, %v", got, err)
		}
		s.node.WaitIdle()
	}, takes(1, 1), pending(1))
}

// A user whose receiver takes nothing is refused once others have work too, and they are not.
func TestWebhookBacklogOfOneUser(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.receiver.Reply(nodetest.Status(503))
		for range 40 {
			s.wants("", user("owing"))
		}
		s.Until(time.Minute, "all called", func() bool { return len(s.target.Requests()) == 40 })
		other, slow := s.Receiver("other.test"), s.Target("slow.test")
		slow.Reply(nodetest.Text("done").Late(time.Hour))
		away := func(sub *client.Submission) { sub.WebhookURL = other.URL("/") }
		s.submit(user("other"), away, to(slow.URL("/")), timeout(2*time.Hour))
		s.wants("webhook_backlog", user("owing"))
		s.wants("", user("other"), away)
		s.receiver.Reply(nodetest.Status(200))
		s.node.WaitIdle()
		s.wants("", user("owing"))
		s.node.WaitIdle()
	}, takes(100, 10), func(c *node.Config) { c.Pacing.MaxPendingWebhooks = 10 })
}

// Tenants of a node with account queues off wait in one line, unless one asks for its own.
func TestSharedQueue(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first").Late(time.Second), nodetest.Text("done"))
		s.submit(labelled("first", 0)) // holds the slot while the others come
		for i := range 3 {
			s.submit(labelled("a", i))
		}
		s.submit(labelled("b", 0))
		s.headersOf(`{"user_id":"c","idempotent_key":"1","method":"GET","headers":{"X-Tenant":"c","X-N":"0"},"url":"`+
			s.target.URL("/work")+`","webhook_url":"`+s.receiver.URL("/hook")+`"}`,
			map[string]string{"X-Aquifer-Account-Queue": "enabled"})
		s.node.WaitIdle()
		if got := order(s.target.Requests()[1:]); got != "a0 c0 a1 a2 b0" && got != "c0 a0 a1 a2 b0" {
			t.Errorf("served %s", got)
		}
	}, takes(1000, 1), func(c *node.Config) { c.Pacing.AccountQueue = "off" })
}

// The health of a node tells how full its fullest target is, by the budget that this one has asked for.
func TestHealthTellsThePressure(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		pressure := func(want float64) {
			t.Helper()
			h, err := s.node.Client().Health(t.Context())
			if err != nil || h.Queues.AdmissionPressure != want {
				t.Errorf("the pressure is %v, want %v (%v)", h.Queues.AdmissionPressure, want, err)
			}
		}
		pressure(0)
		s.target.Reply(nodetest.Text("done").Late(time.Minute))
		for range 85 {
			s.submit()
		}
		pressure(0.5)
		small := s.Target("small.test")
		small.Reply(nodetest.Text("first").With("X-Aqueduct-Max-Backlog", "10"), nodetest.Text("done").Late(time.Minute))
		for range 10 {
			s.submit(to(small.URL("/")))
			<-time.After(time.Second)
		}
		pressure(0.667)
		s.node.WaitIdle()
		pressure(0)
	}, takes(1000, 1), pending(100))
}

// Callers are told how fast they may come, together no faster than the node takes; and the refused too.
func TestInboundRate(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		// What is refused for its fields is told too.
		told := func(user string) string { return s.headersOf(`{"user_id":"`+user+`"}`, nil).Get("X-Aqueduct-Rps") }
		if got := told("a"); got != "160.00" {
			t.Errorf("the only caller is told %q", got)
		}
		if got := told("b"); got != "80.00" {
			t.Errorf("one of two is told %q", got)
		}
		<-time.After(10 * time.Second)
		if got := told("b"); got != "160.00" {
			t.Errorf("the only one of late is told %q", got)
		}
	}, func(c *node.Config) { c.Inbound.Enabled = true })
}
