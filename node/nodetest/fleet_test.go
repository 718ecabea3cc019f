package nodetest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// Nodes on one network are nodes of their own: what happens to one is nothing to the other.
func TestTwoNodes(t *testing.T) {
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		s := &stage{Fleet: f, t: t, target: f.Target("target.test"), receiver: f.Receiver("receiver.test")}
		a, b := f.Node("a"), f.Node("b")
		s.node = a
		s.target.Reply(nodetest.Text("done").Late(time.Second))
		sub := s.submission()
		var ids []string
		for _, n := range []*nodetest.Node{a, b} {
			got, err := n.Client().Submit(t.Context(), sub)
			if err != nil || got.Duplicate {
				t.Fatalf("submit: %+v, %v", got, err)
			}
			ids = append(ids, got.JobID)
		}
		f.Until(time.Second, "both are called", func() bool { return s.target.Open() == 2 })
		a.Kill(nodetest.ProcessDeath)
		b.WaitIdle()
		s.node = b
		tells(t, s.get(ids[1]), "completed 200: 200; delivered after 1")
		if _, err := b.Client().Get(t.Context(), ids[0]); err == nil {
			t.Error("one node shows the job of the other")
		}
		a.Start()
		s.node = a
		tells(t, s.settled(ids[0]), "completed 200: crashed_worker 200; delivered after 1")
		seen := map[string]bool{}
		for _, r := range s.target.Requests() {
			seen[r.Header.Get("X-Aqueduct-Node-Id")] = true
		}
		if fmt.Sprint(seen) != "map[a:true b:true]" {
			t.Errorf("the target heard of %v", seen)
		}
	})
}

// Links to the target and the receiver come and go. Every job ends all the same, and is delivered.
func TestLinksComeAndGo(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		random := rand.New(rand.NewPCG(1, 2))
		var ids []string
		for range 10 {
			for i := range 10 {
				ids = append(ids, s.submit(user(fmt.Sprint("user-", i)), retries(50), timeout(20*time.Second)))
			}
			other := []*nodetest.Machine{s.target.Machine, s.receiver.Machine}[random.IntN(2)]
			s.Net.Cut(s.node.Machine, other)
			<-time.After(time.Duration(random.IntN(15_000)) * time.Millisecond)
			s.Net.Heal(s.node.Machine, other)
			<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		s.node.WaitIdle()
		for _, id := range ids {
			if j := s.get(id); j.Status != job.Completed || j.Webhook.State != job.WebhookDelivered {
				t.Errorf("job went %s", story(j))
			}
		}
	}, takes(20, 3))
}

// A deadline that passes while the node is down is honoured by the next process: the job is not sent.
func TestDeadlineWhileTheNodeIsDown(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("slow").Late(time.Hour), nodetest.Text("done"))
		before := func(wait time.Duration) func(*client.Submission) {
			at := time.Now().Add(wait).UnixMilli()
			return func(sub *client.Submission) { sub.ExecuteBefore = at }
		}
		open := s.submit(timeout(0))
		late, inTime := s.submit(before(time.Minute)), s.submit(before(time.Hour))
		<-time.After(time.Second)
		s.node.Kill(nodetest.ProcessDeath)
		<-time.After(2 * time.Minute)
		s.node.Start()
		tells(t, s.settled(late), "failed 0; delivered after 1")
		tells(t, s.settled(inTime), "completed 200: 200; delivered after 1")
		tells(t, s.settled(open), "completed 200: crashed_worker 200; delivered after 1")
		for _, r := range s.target.Requests() {
			if r.Header.Get("X-Aqueduct-Job-Id") == late {
				t.Error("the job was sent after its deadline")
			}
		}
	})
}

// A client follows a job over the death of the node, however it dies.
func TestWatchOverADeath(t *testing.T) {
	for _, by := range deaths() {
		t.Run(by.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.target.Reply(nodetest.Text("late").Late(10*time.Second), nodetest.Text("done").Late(10*time.Second))
				id := s.submit()
				var list []told
				watched := make(chan struct{})
				go func() {
					defer close(watched)
					for e, err := range s.node.Client().Watch(t.Context(), id, "") {
						if err != nil {
							t.Errorf("watch: %v", err)
						}
						list = append(list, told{id: e.ID, name: e.Name})
					}
				}()
				<-time.After(5 * time.Second)
				s.node.Kill(by)
				<-time.After(5 * time.Second)
				s.node.Start()
				<-watched
				last := list[len(list)-1]
				if last.name != "completed" || last.id != "6" || list[0].name != "queued" {
					t.Errorf("the client was told %+v", list)
				}
				if j := s.settled(id); j.Status != job.Completed {
					t.Errorf("the job went %s", story(j))
				}
			}, synced)
		})
	}
}

// A caller may ask for more than the node's default, and gets it: such a job survives a power cut.
func TestDurabilityOfOneRequest(t *testing.T) {
	for _, by := range []nodetest.Death{nodetest.PowerCut, nodetest.TornPowerCut} {
		t.Run(by.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.target.Reply(nodetest.Hang())
				<-time.After(time.Second)
				usual, err := s.node.Client().Submit(t.Context(), s.submission())
				if err != nil || usual.Durability != "flush" {
					t.Errorf("usual: %+v, %v", usual, err)
				}
				safe, err := s.node.Client().Submit(t.Context(), s.submission(func(sub *client.Submission) { sub.WithDurability = "sync" }))
				if err != nil || safe.Durability != "sync" {
					t.Errorf("safe: %+v, %v", safe, err)
				}
				s.node.Kill(by)
				s.target.Reply(nodetest.Text("done"))
				s.node.Start()
				s.node.WaitIdle()
				if j := s.get(safe.JobID); j.Status != job.Completed {
					t.Errorf("the job went %s", story(j))
				}
			})
		})
	}
}
