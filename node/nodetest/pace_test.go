package nodetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// hosts sets what single targets take, and what receivers do.
func hosts(targets map[string]node.Target, receivers node.Target) func(*node.Config) {
	return func(c *node.Config) {
		c.Targets.Hosts, c.Webhooks.Default = targets, receivers
	}
}

// labelled tells the target whose a job is, and which one of his.
func labelled(tenant string, n int) func(*client.Submission) {
	return func(sub *client.Submission) {
		sub.UserID, sub.Headers = tenant, map[string]string{"X-Tenant": tenant, "X-N": fmt.Sprint(n)}
	}
}

// order lists the labels of requests as they came: "a0 b0 a1".
func order(list []nodetest.Request) string {
	var all []string
	for _, r := range list {
		all = append(all, r.Header.Get("X-Tenant")+r.Header.Get("X-N"))
	}
	return strings.Join(all, " ")
}

// A target gets what it takes, however many tenants there are: never more calls a second, never more at a
// time, and no fewer than that.
func TestPaceHoldsForManyTenants(t *testing.T) {
	t.Parallel()
	const rps, jobs = 20, 300
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(130 * time.Millisecond)) // so that three are open at most
		start := time.Now()
		for i := range jobs {
			s.submit(labelled(fmt.Sprint("tenant-", i%60), i))
		}
		s.node.WaitIdle()
		calls := s.target.Requests()
		for i := range calls {
			// One at the start, and a twentieth of a second for each further one, but for the slack.
			if j := i + rps; j < len(calls) {
				if span := calls[j].At.Sub(calls[i].At); span < time.Second-pace.Slack {
					t.Fatalf("calls %d to %d came within %v", i, j, span)
				}
			}
		}
		took := calls[jobs-1].At.Sub(start)
		if want := (jobs - 1) * time.Second / rps; took > want+want/50 {
			t.Errorf("%d calls took %v, want %v", len(calls), took, want)
		}
		if most := s.target.MostOpen(); most != 3 {
			t.Errorf("%d were open at a time", most)
		}
	}, takes(rps, 3))
}

// max_concurrent holds when calls take long, and the rate is no licence.
func TestConcurrencyHoldsForManyTenants(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(3 * time.Second))
		start := time.Now()
		for i := range 40 {
			s.submit(labelled(fmt.Sprint("tenant-", i%8), i))
		}
		s.node.WaitIdle()
		if most := s.target.MostOpen(); most != 4 {
			t.Errorf("%d were open at a time", most)
		}
		calls := s.target.Requests()
		if took := calls[39].At.Sub(start); took < 27*time.Second || took > 28*time.Second {
			t.Errorf("the last of 40 calls came after %v", took)
		}
	}, takes(1000, 4))
}

// A tenant's jobs go in the order in which they came, also beyond what is kept in memory.
func TestTenantsAreServedInOrder(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		want := map[string][]string{}
		for i := range 400 {
			tenant := "ab"[i%2 : i%2+1]
			s.submit(labelled(tenant, i))
			want[tenant] = append(want[tenant], fmt.Sprint(tenant, i))
		}
		s.node.WaitIdle()
		got := map[string][]string{}
		for _, r := range s.target.Requests() {
			tenant := r.Header.Get("X-Tenant")
			got[tenant] = append(got[tenant], tenant+r.Header.Get("X-N"))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}, takes(100, 1))
}

// A tenant that comes to a target where another one has much waiting is served within two slots.
func TestFA01_QuietTenantIsServedAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for i := range 100 {
			s.submit(labelled("busy", i))
		}
		<-time.After(time.Second)
		before := len(s.target.Requests())
		s.submit(labelled("quiet", 0))
		s.Until(time.Minute, "quiet served", func() bool { return strings.Contains(order(s.target.Requests()), "quiet0") })
		for i, r := range s.target.Requests() {
			if r.Header.Get("X-Tenant") == "quiet" && i-before >= 2 {
				t.Errorf("served as number %d after it came", i-before+1)
			}
		}
	}, takes(10, 1))
}

// Three busy tenants take turns, whatever each of them has waiting.
func TestTenantsTakeTurns(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first").Late(time.Second))
		s.submit(labelled("first", 0)) // holds the slot while the others come
		for tenant, n := range map[string]int{"a": 40, "b": 12, "c": 12} {
			for i := range n {
				s.submit(labelled(tenant, i))
			}
		}
		s.node.WaitIdle()
		counts := map[string]int{}
		for _, r := range s.target.Requests()[1:37] {
			counts[r.Header.Get("X-Tenant")]++
		}
		if fmt.Sprint(counts) != "map[a:12 b:12 c:12]" {
			t.Errorf("of the first 36 slots they had %v", counts)
		}
	}, takes(1000, 1))
}

// Receivers have lanes of their own: a slow one holds up nobody, neither other receivers nor targets.
func TestReceiversDoNotWaitForEachOther(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.receiver.Reply(nodetest.Hang())
		other := s.Receiver("other.test")
		for range 5 {
			s.submit(timeout(time.Second))
		}
		start := time.Now()
		id := s.submit(func(sub *client.Submission) { sub.WebhookURL = other.URL("/") })
		s.Until(time.Minute, "delivered", func() bool { return len(other.Of(id)) == 1 })
		if waited := other.Of(id)[0].At.Sub(start); waited > time.Second {
			t.Errorf("delivered after %v", waited)
		}
		s.receiver.Reply(nodetest.Status(200))
	}, takes(10, 1))
}

// A receiver on the host and port of a target shares nothing with it: each has its own pace, and the slots
// of one are not those of the other.
func TestReceiverOnTheHostOfATarget(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			if r.Path == "/hook" {
				return nodetest.Status(200).Late(10 * time.Second)
			}
			return nodetest.Text("done").Late(time.Second)
		})
		for range 6 {
			s.submit(func(sub *client.Submission) { sub.WebhookURL = s.target.URL("/hook") })
		}
		s.node.WaitIdle()
		var calls, hooks []time.Time
		for _, r := range s.target.Requests() {
			if r.Path == "/hook" {
				hooks = append(hooks, r.At)
			} else {
				calls = append(calls, r.At)
			}
		}
		if len(calls) != 6 || len(hooks) != 6 {
			t.Fatalf("%d calls, %d deliveries", len(calls), len(hooks))
		}
		if took := calls[5].Sub(calls[0]); took != 5*time.Second {
			t.Errorf("the calls took %v, as if they waited for deliveries", took)
		}
		if took := hooks[5].Sub(hooks[0]); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("the deliveries took %v, two at a time", took)
		}
	}, hosts(map[string]node.Target{"target.test": {RPS: 10, MaxConcurrent: 1}}, node.Target{RPS: 10, MaxConcurrent: 2}))
}

// Waiting for a slot is no try, however long it takes.
func TestPC05_WaitingForASlotCostsNoAttempt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("slow").Late(10*time.Minute), nodetest.Text("done"))
		s.submit(timeout(0))
		id := s.submit(retries(0))
		tells(t, s.settled(id), "completed 200: 200; delivered after 1")
	})
}

// After a target has asked for a pause, it still gets one call at a time only.
func TestPC03_OneAtATimeAfterAPause(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(429).With("Retry-After", "1"), nodetest.Text("done").Late(time.Second))
		for range 3 {
			s.submit()
		}
		s.node.WaitIdle()
		if n, most := len(s.target.Requests()), s.target.MostOpen(); n != 4 || most != 1 {
			t.Errorf("%d requests, %d at a time", n, most)
		}
	}, takes(100, 1))
}

// A target has one pace and one queue, in whatever way its host and port are spelled. The call goes out as
// the caller wrote it.
func TestOneTargetInEverySpelling(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(time.Second))
		spellings := []string{"target.test:80", "target.test", "TARGET.test.:0080", "Target.Test:"}
		for i := range 8 {
			s.submit(user(fmt.Sprint("user-", i)), to("http://"+spellings[i%4]+"/work"))
		}
		if n := len(s.list(client.Query{Target: "target.TEST:80"})); n != 8 {
			t.Errorf("listed %d jobs of the target, want 8", n)
		}
		s.node.WaitIdle()
		calls := s.target.Requests()
		if len(calls) != 8 || s.target.MostOpen() != 1 {
			t.Fatalf("%d calls, %d at a time", len(calls), s.target.MostOpen())
		}
		if took := calls[7].At.Sub(calls[0].At); took < 7*time.Second {
			t.Errorf("the calls took %v, as if there were more targets than one", took)
		}
		if got := calls[2].Host; got != "TARGET.test.:0080" {
			t.Errorf("sent to %q", got)
		}
	}, takes(10, 1))
}

// Two tenants whose calls take very different times share a target equally: by default the calls, and if the
// operator wants that, the time that they keep it busy.
func TestFA02_SlowAndQuickTenantsShare(t *testing.T) {
	t.Parallel()
	for name, byUse := range map[string]bool{"calls": false, "time": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.node.KeepsWork = true
				s.target.Answer(func(r nodetest.Request) nodetest.Reply {
					if r.Header.Get("X-Tenant") == "slow" {
						return nodetest.Text("done").Late(10 * time.Second)
					}
					return nodetest.Text("done").Late(100 * time.Millisecond)
				})
				for i := range 200 {
					s.submit(labelled("slow", i))
				}
				for i := range 3000 {
					s.submit(labelled("quick", i))
				}
				<-time.After(2 * time.Minute)
				calls, busy := map[string]float64{}, map[string]float64{}
				for _, r := range s.target.Requests() {
					tenant := r.Header.Get("X-Tenant")
					calls[tenant]++
					busy[tenant] += map[string]float64{"slow": 10, "quick": 0.1}[tenant]
				}
				shared := calls
				if byUse {
					shared = busy
				}
				if part := shared["quick"] / (shared["quick"] + shared["slow"]); part < 0.45 || part > 0.55 {
					t.Errorf("the quick tenant had %.2f of the %s: %v calls, busy for %v s", part, name, calls, busy)
				}
			}, takes(1000, 4), func(c *node.Config) { c.Targets.Default.ShareByUse = byUse })
		})
	}
}
