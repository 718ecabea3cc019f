package nodetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A node that is told to stop says so, takes nothing new, finishes what it has, and goes.
func TestStopFinishesWhatIsThere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(4 * time.Second))
		var ids []string
		for range 4 {
			ids = append(ids, s.submit())
		}
		st := s.open(ids[3])
		defer st.close()
		<-time.After(time.Second)
		start := time.Now()
		s.node.Leave()
		<-time.After(100 * time.Millisecond)

		_, err := s.node.Client().Submit(t.Context(), s.submission())
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || !fault.Is(err, fault.Draining) || refused.Fault.RetryAfter < time.Second {
			t.Errorf("submit to a node that stops: %v", err)
		}
		if err := s.node.Client().Ready(t.Context()); !fault.Is(err, fault.Draining) {
			t.Errorf("ready: %v", err)
		}
		if h, err := s.node.Client().Health(t.Context()); err != nil || h.Status != "draining" {
			t.Errorf("health: %+v, %v", h, err)
		}
		if took := s.node.Left(start); took < 7*time.Second || took > 9*time.Second {
			t.Errorf("stopping took %v, want the time of two calls after another", took)
		}
		if got := names(st.rest()); !strings.HasSuffix(got, "dispatching completed") {
			t.Errorf("the stream told %q", got)
		}
		if n := len(s.target.Requests()); n != 4 {
			t.Errorf("the target saw %d requests", n)
		}
		s.node.Start()
		for i, id := range ids {
			want := "completed 200: 200; delivered after 1"
			if i == 3 {
				want = "completed 200: 200; skipped"
			}
			tells(t, s.get(id), want)
		}
	}, takes(100, 2))
}

// A stop does not wait for back-offs. What waits for its retry goes on in the next process, at its time.
func TestStopDoesNotWaitForBackoffs(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).With("Retry-After", "600"), nodetest.Text("done"))
		s.receiver.Reply(nodetest.Status(503).With("Retry-After", "700"), nodetest.Status(200))
		call := s.submit()
		s.Until(time.Minute, "tried", func() bool { return len(s.target.Requests()) == 1 })
		delivery := s.submit(func(sub *client.Submission) { sub.UserID = "other" })
		s.Until(time.Minute, "delivery tried", func() bool { return len(s.receiver.Requests()) == 1 })

		s.node.KeepsWork = true
		if took := s.node.Stop(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		<-time.After(time.Minute)
		s.node.KeepsWork = false
		s.node.Start()
		tells(t, s.settled(call), "completed 200: 503 200; delivered after 1")
		tells(t, s.settled(delivery), "completed 200: 200; delivered after 2")
		calls := s.target.Requests()
		if wait := calls[2].At.Sub(calls[0].At); wait < 600*time.Second || wait > 602*time.Second {
			t.Errorf("the retry came after %v", wait)
		}
		hooks := s.receiver.Of(delivery)
		if wait := hooks[1].At.Sub(hooks[0].At); wait < 700*time.Second || wait > 702*time.Second {
			t.Errorf("the delivery was repeated after %v", wait)
		}
	})
}

// What cannot start before a stop would be over is not waited for: work of a paused target, and of a tenant whose target
// wants no call. A call that is open is, and so is what waits for the pace alone.
func TestStopDoesNotWaitForWhatIsHeldBack(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			switch r.Header.Get("X-Tenant") {
			case "told":
				return nodetest.Status(503).With("Retry-After", "600")
			case "slow":
				return nodetest.Text("done").Late(2 * time.Second)
			default:
				return nodetest.Text("done")
			}
		})
		s.submit(labelled("told", 0))
		s.Until(time.Minute, "tried", func() bool { return len(s.target.Requests()) == 1 })
		s.submit(labelled("told", 1))
		for i := range 5 {
			s.submit(labelled("paced", i))
		}
		s.node.KeepsWork = true
		if took := s.node.Stop(); took < time.Second || took > 4*time.Second {
			t.Errorf("stopping took %v beside a tenant that is held back, want the time of 5 calls", took)
		}
		if n := s.calls(); n != 6 {
			t.Errorf("%d calls", n)
		}
		s.node.Start()
		s.submit(labelled("slow", 0))
		s.Until(time.Minute, "under way", func() bool { return s.calls() == 8 }) // the tenant's second call beside it
		s.order(http.MethodPost, "/targets/target.test/pause", "")
		s.submit(labelled("paced", 5))
		if took := s.node.Stop(); took < time.Second || took > 3*time.Second {
			t.Errorf("stopping took %v beside a paused target, want the time of the open call", took)
		}
		if n := s.calls(); n != 8 {
			t.Errorf("%d calls", n)
		}
	}, takes(2, 1))
}

// A stop that meets its deadline leaves the rest on disk and is no error. The attempt that was cut counts
// and is repeated; what had not begun begins in the next process; streams are told and resumed.
func TestStopThatMeetsItsDeadline(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Hang())
		var ids []string
		for i := range 20 {
			ids = append(ids, s.submit(user(fmt.Sprint("user-", i%3))))
		}
		st := s.open(ids[0])
		defer st.close()
		<-time.After(time.Second)
		s.node.KeepsWork = true
		if took := s.node.Stop(); took < 5*time.Second || took > 10*time.Second {
			t.Errorf("stopping took %v, want no more than its 10 s", took)
		}
		if got := names(st.rest()); !strings.HasPrefix(got, "queued dispatching") || !strings.HasSuffix(got, "closing") {
			t.Errorf("the stream told %q", got)
		}
		s.node.KeepsWork = false
		s.target.Reply(nodetest.Text("done"))
		s.node.Start()
		s.node.WaitIdle()
		repeated := 0
		for _, id := range ids {
			switch got := story(s.get(id)); got {
			case "completed 200: 200; delivered after 1":
			case "completed 200: crashed_worker 200; delivered after 1":
				repeated++
			default:
				t.Errorf("job went %q", got)
			}
		}
		if repeated != 2 {
			t.Errorf("%d attempts were cut", repeated)
		}
	}, takes(100, 2), func(c *node.Config) { c.ShutdownTimeoutSeconds = 10 })
}

// A node can be stopped while it starts to stop, while it is idle, and right after its start.
func TestStopOfAnIdleNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for range 3 {
			if took := s.node.Stop(); took != 500*time.Millisecond {
				t.Errorf("stopping took %v, want the time in which load balancers notice", took)
			}
			s.node.Start()
		}
		id := s.submit()
		s.node.Stop()
		s.node.Start()
		tells(t, s.get(id), "completed 200: 200; delivered after 1")
	})
}

// Everything that waits is there after a restart, and goes on at the same pace.
func TestRestartWithABacklog(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		for i := range 500 {
			s.submit(labelled(fmt.Sprint("tenant-", i%5), i/5))
		}
		s.node.KeepsWork = true
		s.node.Stop()
		s.node.KeepsWork = false
		done := len(s.target.Requests())
		if done < 20 || done > 300 {
			t.Fatalf("%d calls were made before the stop", done)
		}
		s.node.Start()
		if h, err := s.node.Client().Health(t.Context()); err != nil || h.Queues.Backlog < int64(500-done-5) || h.Queues.Active != 5 {
			t.Errorf("health after %d calls: %+v, %v", done, h.Queues, err)
		}
		s.node.WaitIdle()
		next := map[string]int{}
		for _, r := range s.target.Requests() {
			tenant := r.Header.Get("X-Tenant")
			if got := r.Header.Get("X-N"); got != fmt.Sprint(next[tenant]) {
				t.Fatalf("%s was served job %s, want %d", tenant, got, next[tenant])
			}
			next[tenant]++
		}
		if n := len(s.target.Requests()); n != 500 {
			t.Errorf("the target saw %d requests", n)
		}
	}, takes(10, 1))
}
