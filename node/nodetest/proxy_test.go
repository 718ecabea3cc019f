package nodetest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// The target's answer reaches the caller as it is, and its result needs no webhook then.
func TestACallIsAnsweredAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(404).Body("not \xff here").With("X-Own", "a").With("X-Own", "b").With("Set-Cookie", "c=1").
			With("Connection", "X-Hop").With("X-Hop", "1").With("Keep-Alive", "timeout=5").With("X-Aqueduct-Node-State", "draining"))
		r := s.call()
		if r.status != 404 || r.body != "not \xff here" || strings.Join(r.header["X-Own"], "") != "ab" || r.header.Get("Set-Cookie") != "c=1" {
			t.Errorf("relayed %+v", r)
		}
		for _, name := range []string{"X-Hop", "Keep-Alive", "Content-Type", "X-Aqueduct-Node-State"} {
			if v, ok := r.header[name]; ok {
				t.Errorf("%s is %q", name, v)
			}
		}
		j := s.settled(s.only().JobID)
		tells(t, j, "completed 404: 404; skipped")
		q := s.target.Requests()[0]
		if string(q.Body) != "question" || q.Header.Get("X-Aqueduct-Job-Id") != j.JobID || q.Header.Get("X-Aqueduct-Flow-Rate") != "0.00" {
			t.Errorf("sent %+v", q)
		}
		if n := len(s.receiver.Requests()); n != 0 {
			t.Errorf("%d deliveries although the caller had the result", n)
		}
	})
}

// A target that has too much to do gets the call from the queue, and the caller is told on the same connection.
func TestACallOfAnOverloadedTargetIsQueued(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503), nodetest.Status(500), nodetest.Text("done"))
		r := s.call(retries(1))
		s.fellBack(r, "upstream_overloaded", "proxy_fallback queued dispatching retrying dispatching completed")
		if got := r.field("proxy_fallback", "upstream_status"); got != "503" {
			t.Errorf("upstream_status is %s", got)
		}
		// The first attempt is none of those that are counted.
		tells(t, s.settled(r.id()), "completed 200: 503 500 200; skipped")
		if b := s.shows().Breaker; b.State != "open" || b.Kind != "reroute" || b.Reason != "upstream_overloaded" {
			t.Errorf("the breaker is %+v", b)
		}
		r = s.call()
		s.fellBack(r, "domain_degraded", "proxy_fallback queued dispatching completed")
		if s.node.Gauge("aquifer_proxy_attempts_total") != 1 || s.node.Gauge("aquifer_proxy_fallbacks_total") != 2 {
			t.Error("the calls are not counted")
		}
	})
}

// A single attempt is made in the queue also after one past it. When the target wants to be asked later, it is.
func TestACallWaitsForAsLongAsItsTargetAsks(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(429).With("Retry-After", "30"), nodetest.Status(503))
		r := s.call(retries(0))
		s.fellBack(r, "upstream_overloaded", "proxy_fallback queued dispatching failed")
		q := s.target.Requests()
		if waited := q[1].At.Sub(q[0].At); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("called again after %v", waited)
		}
		tells(t, s.settled(r.id()), "failed 503: 429 503; skipped")
	})
}

// A target that does not answer in time gets the call from the queue, with the job's own time. That the first attempt may have
// been read is shown.
func TestACallOfASlowTargetIsQueued(t *testing.T) {
	for name, slow := range map[string]nodetest.Reply{
		"silent": nodetest.Text("late").Late(5 * time.Second), "half": nodetest.Text("whole").HangAfter(66), "cut": nodetest.Text("whole").CloseAfter(66),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.target.Reply(slow, nodetest.Text("done").Late(5*time.Second))
				r := s.call()
				s.fellBack(r, "upstream_unreachable", "proxy_fallback queued dispatching completed")
				j := s.settled(r.id())
				if len(j.Attempts) != 2 || !j.Attempts[0].MaybeExecuted || j.Attempts[0].DurationMS > 3001 {
					t.Errorf("attempts %+v", j.Attempts)
				}
				if b := s.shows().Breaker; b.State != "closed" {
					t.Errorf("the breaker is %+v", b)
				}
			})
		})
	}
}

// A caller who wants to wait for less is not kept for longer; one that nobody listens for is found so at once, and the third
// opens the breaker.
func TestACallOfADeadTargetIsQueued(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("late").Late(2*time.Second), nodetest.Text("done"))
		start := time.Now()
		s.fellBack(s.call(timeout(time.Second)), "upstream_unreachable", "proxy_fallback queued dispatching completed")
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		s.target.Stop()
		for range 2 { // each is an attempt past the queue and one in it
			s.fellBack(s.call(retries(0)), "upstream_unreachable", "proxy_fallback queued dispatching failed")
			<-time.After(10 * time.Second)
		}
		s.fellBack(s.call(retries(0)), "domain_degraded", "proxy_fallback queued dispatching failed")
	}, func(c *node.Config) { c.Breaker.CooldownSeconds = 60 }, takes(100, 10))
}

// What waits for the target, a pause, and a deadline that is over send a call to the queue without a try.
func TestACallThatIsNotTried(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first").Late(10*time.Second), nodetest.Text("done"))
		s.submit()
		<-time.After(time.Second)
		r := s.call()
		s.fellBack(r, "domain_degraded", "proxy_fallback queued position position position position dispatching completed")
		if got := r.header.Get("X-Aqueduct-Upstream-Backlog"); got != "2" {
			t.Errorf("the backlog is %s", got)
		}
		r = s.call(func(sub *client.Submission) { sub.ExecuteBefore = time.Now().UnixMilli() - 1 })
		s.fellBack(r, "execution_deadline_exceeded", "proxy_fallback queued failed")
		if got := r.field("failed", "reason"); got != `"execution_deadline_exceeded"` {
			t.Errorf("failed with %s", got)
		}
		if n := s.calls(); n != 2 {
			t.Errorf("%d calls", n)
		}
		s.ask(http.MethodPost, "/targets/target.test/pause", "")
		time.AfterFunc(time.Second, func() { s.ask(http.MethodPost, "/targets/target.test/resume", "") })
		s.fellBack(s.call(), "domain_degraded", "proxy_fallback queued dispatching completed")
	}, takes(100, 1))
}

// An answer that only hints at overload is relayed, and opens the breaker for those that follow.
func TestAGoodAnswerIsRelayed(t *testing.T) {
	for name, hinting := range map[string]nodetest.Reply{
		"queue active": nodetest.Text("good").With("X-Aqueduct-Queue-Active", "true"),
		"load report":  nodetest.Text("good").With("endpoint-load-metrics", "TEXT kv_cache_usage_perc=0.95"),
		"queue codes":  nodetest.Text("good").With("X-Aqueduct-Queue-Codes", "2xx"),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.target.Reply(hinting, nodetest.Text("done"))
				if r := s.call(); r.status != 200 || r.body != "good" {
					t.Errorf("answered %+v", r)
				}
				s.fellBack(s.call(), "domain_degraded", "proxy_fallback queued dispatching completed")
			})
		})
	}
}

// What is configured holds back no call that is tried at once; what the target has asked for does.
func TestCallsObeyWhatTheirTargetSays(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for range 20 {
			if r := s.call(); r.status != 200 || r.body != "" {
				t.Fatalf("answered %+v", r)
			}
		}
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			return nodetest.Text("done").With("X-Aqueduct-Max-Concurrent", "2").Late(time.Second)
		})
		s.call()
		done := make(chan reply)
		for range 5 {
			body := callOf(s.submission())
			go func() { done <- s.callWith(body) }()
		}
		direct := 0
		for range 5 {
			if r := <-done; r.body == "done" {
				direct++
			} else {
				s.fellBack(r, "domain_degraded", names(r.events()))
			}
		}
		if most := s.target.MostOpen(); direct != 2 || most != 2 {
			t.Errorf("%d calls were answered at once, and %d were open", direct, most)
		}
	}, takes(1, 10))
}
