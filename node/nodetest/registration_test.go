package nodetest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
	"github.com/aquifer-fleet/aquifer/registry"
	"github.com/aquifer-fleet/aquifer/registry/registrytest"
)

// A node registers when it serves, says at once that it drains, and takes its leave when its work is done.
func TestRegistration(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		synctest.Wait()
		if !c.knows() || c.told() != registry.Active {
			t.Errorf("registered are %v as %v", c.Instances(), c.States())
		}
		s.target.Reply(nodetest.Text("done").Late(20 * time.Second))
		id := s.submit()
		s.Until(time.Minute, "called", func() bool { return s.target.Open() == 1 })
		start := time.Now()
		s.node.Leave()
		synctest.Wait()
		if c.told() != registry.Draining {
			t.Errorf("told at the begin of the stop: %v", c.States())
		}
		<-time.After(19 * time.Second)
		if c.told() != registry.Draining || !c.knows() {
			t.Errorf("told while the node has work: %v", c.States())
		}
		if took := s.node.Left(start); took > 21*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := c.States(); !slices.Equal(got, []registry.State{registry.Active, registry.Draining, registry.Offline}) {
			t.Errorf("told %v", got)
		}
		s.node.Start()
		tells(t, s.get(id), "completed 200: 200; delivered after 1")
	})
}

// badAnswers are those of a control plane that has gone wrong.
func badAnswers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"error":           registrytest.Status(500),
		"cut at once":     registrytest.Cut(registrytest.CutAtOnce),
		"cut in a header": registrytest.Cut(registrytest.CutInHeader),
		"cut in a body":   registrytest.Cut(registrytest.CutInBody),
		"cut in a chunk":  registrytest.Cut(registrytest.CutInChunk),
		"endless":         registrytest.Flood,
		"hanging":         registrytest.Hang,
		"late":            registrytest.Late(4 * time.Second),
	}
}

// Whatever the control plane answers, the node works, tells that it goes, and is gone in time.
func TestWithdrawalFromABadControlPlane(t *testing.T) {
	for name, answer := range badAnswers() {
		t.Run(name, func(t *testing.T) {
			governed(t, func(t *testing.T, s *stage, c *controlPlane) {
				c.Break(registrytest.Fault{Answer: answer, Lands: true})
				<-time.After(20 * time.Second)
				tells(t, s.settled(s.submit()), "completed 200: 200; delivered after 1")
				if took := s.node.Stop(); took > 500*time.Millisecond+registry.DefaultWithdrawal {
					t.Errorf("stopping took %v", took)
				}
				if got := c.States(); len(got) < 3 || !slices.Equal(got[len(got)-2:], []registry.State{registry.Draining, registry.Offline}) {
					t.Errorf("told %v", got)
				}
			})
		})
	}
}

// A control plane that hangs does not make a stop longer than it may be.
func TestWithdrawalWithinTheShutdown(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		s.target.Reply(nodetest.Hang())
		s.submit()
		c.Break(registrytest.Fault{Answer: registrytest.Hang})
		<-time.After(20 * time.Second)
		s.node.KeepsWork = true
		if took := s.node.Stop(); took > time.Second {
			t.Errorf("stopping took %v, want no more than its second", took)
		}
		s.node.KeepsWork = false
		c.Break(registrytest.Fault{})
		s.target.Reply(nodetest.Status(200))
		s.node.Start()
	}, func(c *node.Config) { c.ShutdownTimeoutSeconds = 1 })
}

// For an hour there is no control plane. The node goes on, says so in few lines, and is known again soon
// after the hour.
func TestControlPlaneIsAwayForAnHour(t *testing.T) {
	for name, away := range map[string]func(s *stage, c *controlPlane) (back func()){
		"down": func(_ *stage, c *controlPlane) func() {
			c.down()
			return c.up
		},
		"cut off": func(s *stage, c *controlPlane) func() {
			s.Net.Cut(s.node.Machine, c.machine)
			return func() { s.Net.Heal(s.node.Machine, c.machine) }
		},
		"hanging": func(_ *stage, c *controlPlane) func() {
			c.Break(registrytest.Fault{Answer: registrytest.Hang})
			return func() { c.Break(registrytest.Fault{}) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			governed(t, func(t *testing.T, s *stage, c *controlPlane) {
				<-time.After(time.Minute)
				back := away(s, c)
				for range 60 {
					<-time.After(time.Minute)
					tells(t, s.settled(s.submit()), "completed 200: 200; delivered after 1")
				}
				if len(c.Instances()) != 0 {
					t.Errorf("registered are %v", c.Instances())
				}
				back()
				s.Until(21*time.Second, "registered again", c.knows)
				if n := len(slices.DeleteFunc(s.node.Log(), func(line string) bool { return !strings.Contains(line, "not registered") })); n == 0 || n > 12 {
					t.Errorf("%d lines of the log say that the node is not registered", n)
				}
			})
		})
	}
}

// A node that has come back, from whatever death, is registered as the one that it was.
func TestRestartRegistersAgain(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		for _, end := range []struct {
			name string
			do   func()
		}{
			{"stopped", func() { s.node.Stop() }},
			{"killed", func() { s.node.Kill(nodetest.ProcessDeath) }},
			{"without power", func() { s.node.Kill(nodetest.PowerCut) }},
		} {
			end.do()
			<-time.After(10 * time.Second)
			before := len(c.Pings())
			s.node.Start()
			synctest.Wait()
			if n := len(c.Pings()); n != before+1 || c.told() != registry.Active || !c.knows() {
				t.Errorf("%s: %d pings after the start, told %v, registered are %v", end.name, n-before, c.told(), c.Instances())
			}
		}
		if n := c.Lapses(); n != 0 {
			t.Errorf("%d registrations lapsed", n)
		}
		s.node.Kill(nodetest.ProcessDeath)
		<-time.After(registry.Expiry)
		if len(c.Instances()) != 0 {
			t.Errorf("a dead node is registered")
		}
		s.node.Start()
		s.Until(time.Second, "registered", c.knows)
	})
}

// A node that works all day is registered all day.
func TestRegistrationNeverLapses(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		for i := range 24 * 12 {
			s.submit(user(fmt.Sprint("user-", i%3)))
			<-time.After(5 * time.Minute)
			if !c.knows() {
				t.Fatalf("registered are %v", c.Instances())
			}
		}
		if n := c.Lapses(); n != 0 {
			t.Errorf("%d registrations lapsed", n)
		}
		c.beats(registry.DefaultInterval)
	})
}

func TestIntervalOfPings(t *testing.T) {
	governed(t, func(_ *testing.T, _ *stage, c *controlPlane) {
		<-time.After(time.Minute)
		c.beats(3 * time.Second)
	}, func(c *node.Config) { c.Registry.IntervalSeconds = 3 })
}

// A job that comes through the control plane has null wherever its caller left something out.
func TestJobsFromTheControlPlane(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, _ *controlPlane) {
		const job = `{"user_id":"u","idempotent_key":%q,"method":"GET","url":%q`
		status, answer := s.handIn(fmt.Sprintf(job+`,"webhook_url":%q}`, "a", s.target.URL("/work"), s.receiver.URL("/hook")))
		if status != http.StatusCreated || !strings.Contains(answer, `"status":"queued"`) {
			t.Errorf("answered %d %s", status, answer)
		}
		s.node.WaitIdle()
		if got := s.target.Requests(); len(got) != 1 || got[0].Method != "GET" || len(got[0].Body) != 0 {
			t.Errorf("the target got %+v", got)
		}
		if n := len(s.receiver.Requests()); n != 1 {
			t.Errorf("%d deliveries", n)
		}
		status, answer = s.handIn(fmt.Sprintf(job+"}", "b", s.target.URL("/work")))
		if status != http.StatusBadRequest || !strings.Contains(answer, "webhook_url") {
			t.Errorf("without a webhook_url: answered %d %s", status, answer)
		}
	})
}

// What came to the control plane while it had no node to give is taken by the next one that registers: a
// node serves before it says that it is there.
func TestBacklogOfTheControlPlane(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		answered := make(chan int, 2)
		for _, tenant := range []string{"ada", "bob"} {
			go func() {
				status, _ := s.handIn(fmt.Sprintf(`{"user_id":%q,"idempotent_key":"k","method":"GET","url":%q,"webhook_url":%q}`,
					tenant, s.target.URL("/work"), s.receiver.URL("/hook")))
				answered <- status
			}()
			synctest.Wait()
		}
		if n := len(answered); n != 1 {
			t.Errorf("one node was given to %d tenants", n)
		}
		s.Node("two", reports)
		for range 2 {
			if status := <-answered; status != http.StatusCreated {
				t.Errorf("answered %d", status)
			}
		}
		if list := c.Instances(); len(list) != 2 {
			t.Errorf("registered are %v", list)
		}
	})
}

// Pings go through the egress guard, and follow no redirect.
func TestPingsAreGuarded(t *testing.T) {
	public := func(c *node.Config) { c.Egress = "public" }
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		<-time.After(time.Minute)
		if n := len(c.Pings()); n != 0 {
			t.Errorf("%d pings reached a private address", n)
		}
		s.node.Stop()
		s.node.Configure(func(c *node.Config) { c.EgressAllow = []string{"canalis.test"} })
		s.node.Start()
		s.Until(time.Second, "registered", c.knows)
	}, public)
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		c.Break(registrytest.Fault{Answer: registrytest.Redirect(s.target.URL("/register"))})
		<-time.After(time.Minute)
		if n := len(s.target.Requests()); n != 0 {
			t.Errorf("%d pings were redirected", n)
		}
	}, func(c *node.Config) { c.FollowRedirects = 5 })
}

// A node whose disk fails tells that it goes too.
func TestWithdrawalOfANodeThatFails(t *testing.T) {
	governed(t, func(t *testing.T, s *stage, c *controlPlane) {
		synctest.Wait()
		s.node.MayFail, s.node.KeepsWork = true, true
		s.node.Disk.Break(syscall.EIO, syscall.EIO)
		_, _ = s.node.Client().Submit(t.Context(), s.submission())
		if err := s.node.Fallen(); err == nil {
			t.Error("no error")
		}
		if c.told() != registry.Offline {
			t.Errorf("told %v", c.States())
		}
	})
}
