package nodetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// shownTarget is what the tests read of a target.
type shownTarget struct {
	Target, Host  string
	State         string
	RPS           shownLimit `json:"rps"`
	MaxConcurrent shownLimit `json:"max_concurrent"`
	Backlog       int
	InFlight      int    `json:"in_flight"`
	AccountQueue  string `json:"account_queue"`
	MaxBacklog    *int   `json:"max_backlog"`
	Breaker       shownBreaker
	Shared        *shownShare
	Ordered       *struct {
		Paused bool
		RPS    float64 `json:"rps"`
	}
	Queues []struct {
		Tenant  string
		Backlog int
		RPS     float64 `json:"rps"`
	}
}

// shownShare is what the nodes share.
type shownShare struct {
	Nodes         int
	RPS           float64 `json:"rps"`
	MaxConcurrent int     `json:"max_concurrent"`
}

type shownLimit struct {
	Effective, Configured float64
	Source                string
	Stale                 bool
}

// ask sends a request to the node and returns the status and the body of the answer.
func (s *stage) ask(method, path, body string) (int, string) {
	s.t.Helper()
	status, _, answer := s.send(method, path, strings.NewReader(body), nil)
	return status, answer
}

// shows returns the target of the stage as the node shows it.
func (s *stage) shows() shownTarget {
	s.t.Helper()
	all := s.targets("/targets/target.test")
	if len(all) != 1 {
		s.t.Fatalf("shown as %d targets", len(all))
	}
	return all[0]
}

// targets are those that a path of the node shows.
func (s *stage) targets(path string) []shownTarget {
	s.t.Helper()
	status, answer := s.ask(http.MethodGet, path, "")
	var list struct{ Targets []shownTarget }
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, answer)
	}
	return list.Targets
}

// calls is how many requests the target has had.
func (s *stage) calls() int { return len(s.target.Requests()) }

// between counts the calls in a span of time from now on.
func (s *stage) between(span time.Duration) int {
	before := s.calls()
	<-time.After(span)
	return s.calls() - before
}

// A target under load asks for 5 calls a second, and gets no more within one interval; when it asks for more
// again it gets that a step at a time.
func TestATargetSetsItsPace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		var wants atomic.Int64
		wants.Store(100)
		s.target.Answer(func(nodetest.Request) nodetest.Reply {
			return nodetest.Text("done").With("X-Aqueduct-Rps", fmt.Sprint(wants.Load()))
		})
		for i := range 900 {
			s.submit(user(fmt.Sprint("user-", i%9)))
		}
		if n := s.between(2 * time.Second); n < 98 || n > 102 {
			t.Errorf("%d calls in 2 s at 50 a second", n)
		}
		wants.Store(5)
		<-time.After(200 * time.Millisecond)
		if n := s.between(4 * time.Second); n < 19 || n > 21 {
			t.Errorf("%d calls in 4 s at 5 a second", n)
		}
		if got := s.shows().RPS; got.Effective != 5 || got.Configured != 50 || got.Source != "X-Aqueduct-Rps" {
			t.Errorf("shown as %+v", got)
		}
		wants.Store(40)
		var rates []int
		for range 12 {
			rates = append(rates, s.between(500*time.Millisecond))
		}
		if rates[0] > 5 || rates[11] < 19 || rates[11] > 21 || !slices.IsSorted(rates) {
			t.Errorf("calls in each half second on the way to 40 a second: %v", rates)
		}
	}, takes(50, 8))
}

// A host shows its targets of both schemes, at whatever port.
func TestAHostShowsAllItsTargets(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for _, url := range []string{"http://odd.test:443/", "https://odd.test:80/", "https://odd.test/", "http://odd.test:8080/"} {
			s.submit(to(url), retries(0))
		}
		s.node.WaitIdle()
		for host, want := range map[string]string{
			"odd.test":      "[https://odd.test http://odd.test:443 https://odd.test:80]",
			"ODD.test.:443": "[https://odd.test http://odd.test:443 https://odd.test:80]",
			"odd.test:8080": "[http://odd.test:8080]",
		} {
			var names []string
			for _, shown := range s.targets("/targets/" + host) {
				names = append(names, shown.Target)
			}
			if got := fmt.Sprint(names); got != want {
				t.Errorf("at %s there are %s", host, got)
			}
		}
	}, takes(1000, 4))
}

// A limit that is not heard any more holds for a while, and then gives way with each success.
func TestPC10_AHintThatIsNotHeardGivesWay(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.target.Reply(nodetest.Text("full").With("endpoint-load-metrics", "TEXT kv_cache_usage_perc=0.98"), nodetest.Text("done"))
		for range 400 {
			s.submit()
		}
		s.Until(time.Minute, "the report was read", func() bool { return s.shows().RPS.Effective == 0.25 })
		if n := s.between(28 * time.Second); n > 8 {
			t.Errorf("%d calls while the report held", n)
		}
		s.Until(time.Minute, "the report is stale", func() bool { return s.shows().RPS.Stale })
		s.Until(time.Hour, "the pace is back", func() bool { return s.shows().RPS.Source == "configured" })
	}, takes(10, 4))
}

// What a header said is shown as it was said, also where it is the floor that holds.
func TestWhatAHeaderSaidIsShown(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").With("X-Aqueduct-Rps", "0"))
		s.submit()
		s.node.WaitIdle()
		status, answer := s.ask(http.MethodGet, "/targets/target.test", "")
		if want := `"rps":{"effective":0.25,"configured":10,"source":"X-Aqueduct-Rps","learned":0,"since":`; !strings.Contains(answer, want) {
			t.Errorf("%d %s", status, answer)
		}
	}, takes(10, 4))
}

// A target that lowers the number of open calls gets no more than that.
func TestATargetBoundsConcurrency(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			return nodetest.Text("done").With("X-Aquifer-Max-Concurrent", "2").Late(time.Second)
		})
		for range 40 {
			s.submit()
		}
		<-time.After(1500 * time.Millisecond)
		if open := s.shows().InFlight; open > 2 {
			t.Errorf("%d calls are open", open)
		}
		s.node.WaitIdle()
	}, takes(1000, 8))
}

// The calls of one tenant fail: it is slowed down, another one at the same target and itself elsewhere are not.
func TestPC13_OneTenantsFailuresAreItsOwn(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		other := s.Target("other.test")
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			if r.Header.Get("X-Tenant") == "failing" {
				return nodetest.Status(429).With("Retry-After", "60")
			}
			return nodetest.Text("done")
		})
		for i := range 300 {
			s.submit(labelled("failing", i), retries(50))
			s.submit(labelled("fine", i))
			s.submit(labelled("failing", i), to(other.URL("/")))
		}
		<-time.After(20 * time.Second)
		counts := map[string]int{}
		for _, r := range s.target.Requests() {
			counts[r.Header.Get("X-Tenant")]++
		}
		if counts["fine"] < 190 || counts["failing"] > 10 {
			t.Errorf("the target was called %v", counts)
		}
		if n := len(other.Requests()); n < 195 {
			t.Errorf("the other target was called %d times", n)
		}
	}, takes(10, 4))
}

// What a target tells one of the tenants that share a queue holds back that job, and not the others.
func TestPC13_OneJobWaitsInASharedQueue(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			if r.Header.Get("X-Tenant") == "failing" {
				return nodetest.Status(429).With("Retry-After", "3600")
			}
			return nodetest.Text("done")
		})
		s.submit(labelled("failing", 0), retries(50))
		for i := range 20 {
			s.submit(labelled("fine", i))
		}
		<-time.After(10 * time.Second)
		if n := s.calls(); n != 21 {
			t.Errorf("%d of 21 calls in 10 s", n)
		}
	}, takes(10, 4), func(c *node.Config) { c.Pacing.AccountQueue = "off" })
}

// A target says how its tenants wait here, and how much it may have; both outlive its work.
func TestATargetSetsItsQueue(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first").With("X-Aqueduct-Account-Queue", "disabled").With("X-Aqueduct-Max-Backlog", "5"),
			nodetest.Text("second").Late(time.Second), nodetest.Text("done"))
		s.submit(labelled("first", 0))
		s.node.WaitIdle()
		<-time.After(29 * time.Second)
		if got := s.shows(); got.AccountQueue != "disabled" || got.MaxBacklog == nil || *got.MaxBacklog != 5 {
			t.Errorf("shown as %+v", got)
		}
		s.submit(labelled("second", 0)) // holds the slot while the others come
		for i := range 3 {
			s.wants("", labelled("a", i))
		}
		s.wants("", labelled("b", 0))
		if reason, again := s.tries(labelled("b", 1)); reason != "upstream_queue" || again != time.Second {
			t.Errorf("refused for %q with Retry-After %v, want the second for which the target's bound still holds", reason, again)
		}
		s.node.WaitIdle()
		if got := order(s.target.Requests()[2:]); got != "a0 a1 a2 b0" {
			t.Errorf("served %s", got)
		}
	}, takes(1000, 1))
}

// One answer bounds the work for its target no longer than any other hint holds, also when the only call that could take
// the bound back waits for an hour.
func TestAMaxBacklogEnds(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.KeepsWork = true
		s.target.Reply(nodetest.Status(503).With("Retry-After", "3600").With("X-Aqueduct-Max-Backlog", "1"), nodetest.Text("done"))
		s.submit(labelled("a", 0))
		<-time.After(10 * time.Second)
		reason, again := s.tries(labelled("b", 0))
		if reason != "upstream_queue" && reason != "queue_fair_share" || again != 20*time.Second {
			t.Fatalf("refused for %q with Retry-After %v, want what is left of 30 s", reason, again)
		}
		<-time.After(again)
		s.wants("", labelled("b", 1))
		if got := s.shows(); got.MaxBacklog != nil {
			t.Errorf("shown as %d", *got.MaxBacklog)
		}
	}, takes(1000, 1))
}

// A wait that no clock can hold is cut to what the node allows, for the job and for the tenant's others.
func TestRA01_EndlessRetryAfter(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(429).With("Retry-After", "99999999999999999999"),
			nodetest.Status(429).With("Retry-After", "9223372037"), nodetest.Text("done"))
		start := time.Now()
		first, second := s.submit(), s.submit()
		s.settled(first)
		s.settled(second)
		if took := time.Since(start); took < time.Hour || took > 3*time.Hour {
			t.Errorf("both were done after %v", took)
		}
		if n := s.calls(); n != 4 {
			t.Errorf("%d calls", n)
		}
	}, takes(10, 1))
}
