package nodetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// Who calls again with a key that is known gets what the job has answered, or hears of it until it does.
func TestACallWithAKnownKey(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("do\xffne").Late(2 * time.Second))
		body := callOf(s.submission())
		first := make(chan reply)
		go func() { first <- s.callWith(body) }()
		<-time.After(time.Second)
		r := s.callWith(body)
		if got := names(r.events()); got != "queued dispatching completed" {
			t.Errorf("during the attempt the stream told %q", got)
		}
		if r := <-first; r.body != "do\xffne" {
			t.Errorf("answered %+v", r)
		}
		r = s.callWith(strings.Replace(body, "question", "another", 1))
		var known struct {
			JobID     string `json:"job_id"`
			Status    string
			Duplicate bool
			Mismatch  bool `json:"payload_mismatch"`
			Result    client.Result
		}
		if err := json.Unmarshal([]byte(r.body), &known); err != nil || r.status != 200 || known.Status != "completed" || !known.Duplicate || !known.Mismatch {
			t.Errorf("answered %+v", r)
		}
		if known.Result.ResponseStatus != 200 || known.Result.BodyEncoding != "base64" || known.Result.ContentType != "text/plain" {
			t.Errorf("the result is %+v", known.Result)
		}
		if s.calls() != 1 || known.JobID != s.only().JobID {
			t.Errorf("%d calls", s.calls())
		}
		s.node.WaitIdle()
		if n := len(s.receiver.Requests()); n != 0 {
			t.Errorf("%d deliveries", n)
		}
	})
}

// One user's call of a shared key is another one's too.
func TestCallsWithASharedKey(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503), nodetest.Text("done").Late(5*time.Second))
		shared := func(sub *client.Submission) { sub.Scope, sub.IdempotentKey = "shared", "k" }
		first := make(chan reply)
		a, b := callOf(s.submission(shared, user("a"))), callOf(s.submission(shared, user("b")))
		go func() { first <- s.callWith(a) }()
		<-time.After(time.Second)
		follower := s.callWith(b)
		leader := <-first
		if leader.field("completed", "body") != `"done"` || follower.field("completed", "body") != `"done"` || leader.id() != follower.id() {
			t.Errorf("told %s and %s", leader.body, follower.body)
		}
		if got := names(follower.events()); got != "queued dispatching completed" {
			t.Errorf("the follower heard %q", got)
		}
	}, func(c *node.Config) { c.SharedIdempotencyEnabled = true })
}

// A call for an attempt at once and nothing else leaves no trace unless it is answered.
func TestADirectOnlyCall(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).With("Retry-After", "1"), nodetest.Text("done"))
		sub := s.submission()
		only := callOf(sub, `"direct_only":true`)
		r := s.callWith(only)
		if r.status != 503 || !strings.Contains(r.body, `"reason":"upstream_overloaded","upstream_status":503`) || r.header.Get("Retry-After") == "" {
			t.Errorf("answered %+v", r)
		}
		if r := s.callWith(only); r.status != 503 || !strings.Contains(r.body, `"reason":"domain_degraded","upstream_status":0`) {
			t.Errorf("with an open breaker: %+v", r)
		}
		for j := range s.node.Client().List(t.Context(), client.Query{}) {
			t.Errorf("left %+v", j)
		}
		if n := len(s.receiver.Requests()); n != 0 || s.calls() != 1 {
			t.Errorf("%d deliveries, %d calls", n, s.calls())
		}
		<-time.After(10 * time.Second)
		if r := s.callWith(only); r.status != 200 || r.body != "done" {
			t.Errorf("when the target is well again: %+v", r)
		}
		tells(t, s.settled(s.only().JobID), "completed 200: 200; skipped")
		sub.IdempotentKey, sub.ExecuteBefore = "late", 1
		if r := s.callWith(callOf(sub, `"direct_only":true`)); r.status != 503 || !strings.Contains(r.body, "execution_deadline_exceeded") {
			t.Errorf("too late: %+v", r)
		}
		if id := s.submit(); id == "" || s.settled(id).Status != "completed" {
			t.Error("the queue does not go on")
		}
	})
}

// The death of the node ends such a call too: nobody knows of it, so nothing runs it again.
func TestADirectOnlyCallThatDies(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("late").Late(2*time.Second), nodetest.Text("done"))
		only := callOf(s.submission(), `"direct_only":true`)
		c := s.dial(s.node, only)
		defer c.hangUp()
		<-time.After(time.Second)
		if r := s.callWith(strings.Replace(only, `"direct_only":true`, `"_":0`, 1)); r.status != 503 || r.header.Get("Retry-After") != "1" {
			t.Errorf("meanwhile the key was answered with %+v", r)
		}
		s.node.Kill(nodetest.ProcessDeath)
		<-time.After(10 * time.Second)
		s.node.Start()
		s.node.WaitIdle()
		<-time.After(time.Second)
		for j := range s.node.Client().List(t.Context(), client.Query{}) {
			t.Errorf("left %+v", j)
		}
		if n := len(s.receiver.Requests()); n != 0 || s.calls() != 1 {
			t.Errorf("%d deliveries, %d calls", n, s.calls())
		}
	})
}

// An answer that is larger than the node reads is no answer to relay: the caller is told what there is, and that it is not all.
func TestAnAnswerThatIsTooLargeToRelay(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text(strings.Repeat("x", 3000)))
		r := s.call()
		if got := names(r.events()); got != "queued completed" || r.field("completed", "body_truncated") != "true" {
			t.Errorf("told %s", r.body)
		}
		if j := s.settled(r.id()); s.calls() != 1 {
			t.Errorf("%s after %d calls", story(j), s.calls())
		}
	}, func(c *node.Config) { c.MaxResponseBytes = 1000 })
}

// A body without a length passes below the limit, tried at once or queued; above it is refused.
func TestBD01_CallWithoutLength(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		post := func(n int) reply {
			body := callOf(s.submission(func(sub *client.Submission) { sub.Body = []byte(strings.Repeat("x", n)) }))
			var r reply
			r.status, r.header, r.body = s.send(http.MethodPost, "/proxy", struct{ *strings.Reader }{strings.NewReader(body)}, nil)
			return r
		}
		if r := post(3 << 20); r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.body, `"limit_bytes":1048576`) {
			t.Errorf("3 MB: %+v", r)
		}
		s.target.Reply(nodetest.Text("direct"), nodetest.Status(503), nodetest.Text("queued"))
		if r := post(900 << 10); r.body != "direct" {
			t.Errorf("900 KB: %+v", r)
		}
		s.fellBack(post(900<<10), "upstream_overloaded", "proxy_fallback queued dispatching completed")
		for _, q := range s.target.Requests() {
			if len(q.Body) != 900<<10 {
				t.Errorf("the target saw %d bytes", len(q.Body))
			}
		}
	})
}

// What is full refuses a call that has to join it, and not one that goes past it.
func TestACallThatIsRefused(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("slow").Late(2*time.Second), nodetest.Text("done"))
		s.submit()
		r := s.call()
		if r.status != 429 || !strings.Contains(r.body, `"limit_reason":"upstream_queue","limit":1,"current":1`) || r.header.Get("Retry-After") == "" ||
			r.header.Get("X-Aqueduct-Upstream-Backlog") != "1" {
			t.Errorf("answered %+v", r)
		}
		s.node.WaitIdle()
		if r := s.call(); r.body != "done" {
			t.Errorf("answered %+v", r)
		}
	}, func(c *node.Config) { c.Pacing.MaxPendingPerUpstream = 1 })
}

// A node that stops takes no call, and ends the one that is open with its answer.
func TestCallsOfANodeThatStops(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(2 * time.Second))
		open := make(chan reply)
		body := callOf(s.submission())
		go func() { open <- s.callWith(body) }()
		<-time.After(time.Second)
		start := time.Now()
		s.node.Leave()
		<-time.After(time.Millisecond)
		r := s.call()
		if r.status != 503 || r.header.Get("X-Aqueduct-Node-State") != "draining" || r.header.Get("Retry-After") == "" {
			t.Errorf("answered %+v", r)
		}
		if r := <-open; r.body != "done" {
			t.Errorf("the open call was answered with %+v", r)
		}
		if took := s.node.Left(start); took > 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// A node that cuts an attempt when it stops leaves the job to the next process.
func TestACallThatIsCut(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.target.Reply(nodetest.Text("never").Late(time.Hour), nodetest.Text("done"))
		open := make(chan reply)
		body := callOf(s.submission())
		go func() { open <- s.callWith(body) }()
		<-time.After(time.Second)
		s.node.Stop()
		r := <-open
		if got := names(r.events()); got != "proxy_fallback queued retrying closing" {
			t.Errorf("the caller was told %q", got)
		}
		s.node.KeepsWork = false
		s.node.Start()
		tells(t, s.settled(r.id()), "completed 200: crashed_worker 200; delivered after 1")
	}, func(c *node.Config) { c.Proxy.DirectSeconds, c.ShutdownTimeoutSeconds = 600, 10 })
}

// Whichever node is called, a call reaches its target through the tenant's owner, and so do the answer and the stream.
func TestCallsOfACluster(t *testing.T) {
	providers(t, 3, func(t *testing.T, r *region) {
		owner := map[string]string{}
		for i := range 18 {
			tenant := fmt.Sprint("user-", i%6)
			r.node = r.nodes[i%3]
			got := r.call(labelled(tenant, i))
			if got.status != 200 || got.body != "" || got.header.Get("X-Aquifer-Cluster-Owner") == "" {
				t.Fatalf("answered %+v", got)
			}
			if at := got.header.Get("X-Aquifer-Cluster-Owner"); owner[tenant] != "" && owner[tenant] != at {
				t.Errorf("%s is owned by %s and %s", tenant, owner[tenant], at)
			} else {
				owner[tenant] = at
			}
		}
		for tenant, by := range r.owners() {
			if len(by) != 1 || by[owner[tenant]] != 3 {
				t.Errorf("the calls of %s were made by %v", tenant, by)
			}
		}
		r.target.Reply(nodetest.Status(503), nodetest.Text("done").Late(15*time.Second))
		got := r.call(user("streamed"))
		r.fellBack(got, "upstream_overloaded", "proxy_fallback queued dispatching completed")
		if got.field("completed", "body") != `"done"` || got.header.Get("X-Aquifer-Cluster-Owner") == "" {
			t.Errorf("told %+v", got)
		}
		r.idle()
		if n := len(r.receiver.Requests()); n != 0 {
			t.Errorf("%d deliveries of results that their callers had", n)
		}
	})
}
