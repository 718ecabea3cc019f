package nodetest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// modes are the two promises that an acknowledgement can make.
func modes() map[string]func(*node.Config) {
	return map[string]func(*node.Config){"flush": func(*node.Config) {}, "sync": synced}
}

func deaths() []nodetest.Death {
	return []nodetest.Death{nodetest.ProcessDeath, nodetest.PowerCut, nodetest.TornPowerCut}
}

// steps counts everything that the node does on its disk, and everything that is sent between it and the
// others, and kills it before the n-th of these steps.
type steps struct {
	s        *stage
	by       nodetest.Death
	at       int64
	taken    atomic.Int64
	killedAt atomic.Int64 // Unix ns; 0 if it was not
}

// arm begins to count.
func (st *steps) arm() {
	st.s.node.Disk.Tap(st.step)
	st.s.Net.Tap(func(nodetest.Traffic) { st.step() })
}

func (st *steps) step() {
	if st.taken.Add(1) == st.at {
		st.killedAt.Store(time.Now().UnixNano())
		st.s.node.Kill(st.by)
	}
}

// disarm ends the counting, and reports whether the node was killed.
func (st *steps) disarm() bool {
	st.s.node.Disk.Tap(nil)
	st.s.Net.Tap(nil)
	return st.killedAt.Load() != 0
}

// A node is killed in every gap between two things that it does for a job. Whatever was acknowledged as
// durably as the death demands is there in the next process, and ends; the target and the receiver see at
// most one call more than without the death, under the same ids.
func TestKL01_DeathInEveryGap(t *testing.T) {
	for _, c := range []struct {
		mode string
		by   nodetest.Death
	}{
		{"flush", nodetest.ProcessDeath}, {"flush", nodetest.PowerCut}, {"sync", nodetest.PowerCut}, {"sync", nodetest.TornPowerCut},
	} {
		t.Run(fmt.Sprint(c.mode, ", ", c.by), func(t *testing.T) {
			t.Parallel()
			gaps := int64(1)
			for died := true; died; gaps++ {
				t.Run(fmt.Sprint("step ", gaps), func(t *testing.T) {
					play(t, func(t *testing.T, s *stage) {
						died = dieInGap(t, s, c.by, gaps, c.mode == "sync" || c.by == nodetest.ProcessDeath)
					}, modes()[c.mode])
				})
			}
			if gaps < 20 {
				t.Errorf("there were only %d steps", gaps)
			}
		})
	}
}

// dieInGap takes a job through a failed and a good attempt, and a failed and a good delivery, with a death
// before the n-th step. It reports whether there were so many.
func dieInGap(t *testing.T, s *stage, by nodetest.Death, n int64, durable bool) bool {
	t.Helper()
	s.target.Reply(nodetest.Status(503), nodetest.Text("done \xff"))
	s.receiver.Reply(nodetest.Status(503), nodetest.Status(200))
	st := &steps{s: s, by: by, at: n}
	st.arm()
	sub := s.submission()
	id, acknowledged := s.insist(sub)
	s.Until(time.Minute, "killed, or all done", func() bool {
		return !s.node.Running() || len(s.receiver.Requests()) == 2 && s.node.Gauge("aquifer_queue_backlog") == 0
	})
	died := st.disarm()
	if died {
		<-time.After(time.Second)
		s.node.Start()
	}
	if id == "" {
		id, acknowledged = s.insist(sub)
	}
	if _, err := s.node.Client().Get(t.Context(), id); fault.Is(err, fault.NotFound) {
		if lost := time.Duration(st.killedAt.Load() - acknowledged.UnixNano()); durable || lost > 150*time.Millisecond {
			t.Errorf("the job was lost %v after it was acknowledged", lost)
		}
		return died
	}
	a := aftermath{Job: s.settled(id), died: died, durable: durable}
	a.check(t, s)
	return died
}

// aftermath is how a job went that one death may have hit.
type aftermath struct {
	client.Job
	died    bool
	durable bool // what was done before it is known afterwards
}

// check judges it. A process that has forgotten what was not durable may have called for a job of which
// nobody knows any more.
func (a aftermath) check(t *testing.T, s *stage) {
	t.Helper()
	if a.Status != job.Completed || a.Webhook.State != job.WebhookDelivered || a.Result.BodyEncoding != "base64" {
		t.Errorf("the job went %s", story(a.Job))
	}
	extra := 0
	if a.died {
		extra = 1
	}
	crashes := strings.Count(story(a.Job), string(job.CrashedWorker))
	if len(a.Attempts)-crashes > 2 || crashes > extra {
		t.Errorf("the job went %s", story(a.Job))
	}
	calls := s.target.Requests()
	for _, c := range calls {
		if got := c.Header.Get("X-Aqueduct-Job-Id"); got != a.JobID && a.durable {
			t.Errorf("a call was for job %q, not %q", got, a.JobID)
		}
	}
	all := s.receiver.Deliveries()
	if len(calls) > 2+extra || len(all) > 2+extra {
		t.Errorf("there were %d calls and %d deliveries", len(calls), len(all))
	}
	mine := s.receiver.Of(a.JobID)
	for _, d := range mine {
		if d.ID != mine[0].ID || string(d.Body) != string(mine[0].Body) || string(d.Message.Bytes()) != "done \xff" {
			t.Errorf("delivery %s %s differs from %s %s", d.ID, d.Body, mine[0].ID, mine[0].Body)
		}
	}
	if len(mine) == 0 || len(mine) != len(all) && a.durable {
		t.Errorf("%d of %d deliveries were of the job", len(mine), len(all))
	}
}

// insist submits a job until the node has answered, and returns when that was. It gives up, with an empty
// id, when the node is not there.
func (s *stage) insist(sub client.Submission) (id string, at time.Time) {
	s.t.Helper()
	for s.node.Running() {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		got, err := s.node.Client().Submit(ctx, sub)
		cancel()
		if err == nil {
			return got.JobID, time.Now()
		}
		var refused *client.Error
		if errors.As(err, &refused) {
			s.t.Fatalf("submit: %v", err)
		}
	}
	return "", time.Time{}
}

// A job whose attempts kill the node is given up at the third time, and everybody else's goes on.
func TestKL01_JobThatKillsTheNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			if r.Path == "/poison" {
				<-time.After(time.Second) // the caller has his answer by then
				s.node.Kill(nodetest.ProcessDeath)
			}
			return nodetest.Text("done")
		})
		others := []string{s.submit(user("other")), s.submit(user("other")), s.submit(user("other")), s.submit(user("other"))}
		poison := s.submit(to(s.target.URL("/poison")), retries(-1))
		for range 3 {
			s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
			s.node.Start()
		}
		j := s.settled(poison)
		tells(t, j, "failed 0: crashed_worker crashed_worker crashed_worker; delivered after 1")
		if j.Reason != "crashed_worker" || !j.Attempts[0].MaybeExecuted {
			t.Errorf("reason %q, attempts %+v", j.Reason, j.Attempts)
		}
		for _, id := range others {
			tells(t, s.settled(id), "completed 200: 200; delivered after 1")
		}
	})
}

// Jobs that are open beside one that kills the node go on when that is given up, although they were open
// in its deaths: whoever was there twice takes its turn alone among such jobs, while all others go on.
func TestKL01_JobsBesideOneThatKillsTheNode(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(r nodetest.Request) nodetest.Reply {
			switch r.Path {
			case "/poison":
				<-time.After(time.Second)
				s.node.Kill(nodetest.ProcessDeath)
			case "/slow":
				return nodetest.Text("done").Late(10 * time.Second)
			}
			return nodetest.Text("done")
		})
		slow := to(s.target.URL("/slow"))
		innocent := []string{s.submit(slow), s.submit(slow, user("other"))}
		poison := s.submit(to(s.target.URL("/poison")))
		innocent = append(innocent, s.submit(slow), s.submit(slow, user("other")))
		for range 2 {
			s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
			s.node.Start()
		}
		start := time.Now()
		tells(t, s.settled(s.submit(user("new"))), "completed 200: 200; delivered after 1")
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("a new job waited %v for them", waited)
		}
		s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
		s.node.Start()
		tells(t, s.settled(poison), "failed 0: crashed_worker crashed_worker crashed_worker; delivered after 1")
		for _, id := range innocent {
			j := s.settled(id)
			if j.Status != job.Completed || len(j.Attempts) > 4 || j.Webhook.State != job.WebhookDelivered {
				t.Errorf("a job beside it went %s", story(j))
			}
		}
	}, takes(100, 10))
}

// A job without retries whose only attempt the node did not survive is not tried again.
func TestKL01_NoAttemptLeftAfterADeath(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Answer(func(nodetest.Request) nodetest.Reply {
			<-time.After(time.Second)
			s.node.Kill(nodetest.ProcessDeath)
			return nodetest.Text("done")
		})
		id := s.submit(retries(0))
		s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
		s.node.Start()
		tells(t, s.settled(id), "failed 0: crashed_worker; delivered after 1")
		if n := len(s.target.Requests()); n != 1 {
			t.Errorf("the target saw %d requests", n)
		}
	})
}

// Many jobs of many tenants, and a node that dies again and again at any moment: every job that was
// acknowledged as durably as the deaths demand ends, and is delivered.
func TestKL01_DeathsAtAnyMoment(t *testing.T) {
	for mode, c := range map[string]struct {
		edit func(*node.Config)
		by   []nodetest.Death
	}{
		"flush": {takes(20, 3), deaths()[:1]},
		"sync":  {func(c *node.Config) { takes(20, 3)(c); synced(c) }, deaths()},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprint(mode, ", seed ", seed), func(t *testing.T) {
				t.Parallel()
				play(t, func(t *testing.T, s *stage) { dieOften(t, s, c.by, rand.New(rand.NewPCG(seed, 0))) }, c.edit)
			})
		}
	}
}

func dieOften(t *testing.T, s *stage, by []nodetest.Death, random *rand.Rand) {
	t.Helper()
	fails := random.Perm(1000)
	s.target.Answer(func(r nodetest.Request) nodetest.Reply {
		reply := nodetest.Text("done").Late(time.Duration(fails[r.N%1000]) * time.Millisecond)
		if fails[r.N%1000]%5 == 0 {
			reply = nodetest.Status(503)
		}
		return reply
	})
	const deathsInAll = 8
	subs, ids := make([]client.Submission, 80), make([]string, 80)
	next := 0
	for range deathsInAll {
		for range len(subs) / deathsInAll {
			subs[next] = s.submission(user(fmt.Sprint("user-", next%7)), retries(30))
			ids[next], _ = s.insist(subs[next])
			next++
		}
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		s.node.Kill(by[random.IntN(len(by))])
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		s.node.Start()
	}
	s.node.WaitIdle()
	all := s.receiver.Deliveries()
	of := map[string][]nodetest.Delivery{}
	for _, d := range all {
		of[d.Message.JobID] = append(of[d.Message.JobID], d)
	}
	for i, id := range ids {
		j := s.get(id)
		unlucky := strings.Count(story(j), string(job.CrashedWorker)) == 3 // a job can be hit by three deaths
		if j.Status != job.Completed && !unlucky || j.Webhook.State != job.WebhookDelivered || len(of[id]) == 0 {
			t.Errorf("job %d went %s and was delivered %d times", i, story(j), len(of[id]))
		}
		for _, d := range of[id] {
			if d.Message.Status != j.Status || d.ID != of[id][0].ID {
				t.Errorf("job %d was delivered as %+v", i, d)
			}
		}
	}
	if extra := len(all) - len(ids); extra > deathsInAll*3 {
		t.Errorf("%d deliveries for %d jobs", len(all), len(ids))
	}
}
