package nodetest_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// read takes so many bytes of the answer.
func (c caller) read(n int) {
	c.s.t.Helper()
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
		c.s.t.Fatal(err)
	}
}

// hangUp closes the connection; what is on its way to the caller is lost.
func (c caller) hangUp() { _ = c.Close() }

// A caller who hangs up during the attempt does not start another one: its answer is stored, and delivered.
func TestACallerWhoLeavesDuringTheAttempt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(2 * time.Second))
		c := s.dial(s.node, callOf(s.submission()))
		<-time.After(time.Second)
		c.hangUp()
		id := s.only().JobID
		if got := s.settled(id); s.calls() != 1 {
			t.Errorf("%d calls", s.calls())
		} else {
			tells(t, got, "completed 200: 200; delivered after 1")
		}
		if d := s.receiver.Of(id); len(d) != 1 || d[0].Message.Body != "done" {
			t.Errorf("delivered %+v", d)
		}
	})
}

// If the attempt fails when the caller has left, the job goes on from the queue.
func TestACallerWhoLeavesAFailedAttempt(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).Late(2*time.Second), nodetest.Text("done"))
		c := s.dial(s.node, callOf(s.submission()))
		<-time.After(time.Second)
		c.hangUp()
		tells(t, s.settled(s.only().JobID), "completed 200: 503 200; delivered after 1")
	})
}

// Who leaves in the middle of the answer has not got it: it is delivered. Who reads slowly gets it, however long that takes,
// and it is delivered to nobody else.
func TestACallerWhoReadsSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		stays bool
		want  string
	}{"stays": {true, "completed 200: 200; skipped"}, "leaves": {false, "completed 200: 200; delivered after 1"}} {
		t.Run(name, everyMemory(func(t *testing.T, memory func(*node.Config)) {
			play(t, func(t *testing.T, s *stage) {
				const size = 3 << 20
				s.target.Reply(nodetest.Text(strings.Repeat("x", size)))
				slow := s.dial(s.node, callOf(s.submission()))
				for range 10 {
					slow.read(size / 16)
					<-time.After(5 * time.Second)
				}
				if n := len(s.receiver.Requests()); n != 0 {
					t.Errorf("%d deliveries while the caller reads", n)
				}
				if c.stays {
					slow.read(size - 10*(size/16))
				}
				<-time.After(time.Second)
				slow.hangUp()
				tells(t, s.settled(s.only().JobID), c.want)
			}, memory)
		}))
	}
}

// everyMemory runs a test without a limit of the memory, and with one that leaves it to one answer at a time.
func everyMemory(test func(t *testing.T, memory func(*node.Config))) func(*testing.T) {
	return func(t *testing.T) {
		for name, memory := range map[string]func(*node.Config){"free": func(c *node.Config) { c.MemoryLimitMB = 0 }, "narrow": narrow} {
			t.Run(name, func(t *testing.T) { test(t, memory) })
		}
	}
}

// chunked is an answer of unknown length, for which a node takes the room of the largest one while it reads.
func chunked(body string) nodetest.Reply {
	return nodetest.Raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
}

// A caller who reads slowly takes no memory from other targets' answers, and who reads for too long has his result by
// webhook.
func TestASlowCallerHoldsUpNobody(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(chunked(strings.Repeat("x", 3<<20)))
		slow := s.dial(s.node, callOf(s.submission()))
		slow.read(100_000)
		other := s.Target("other.test")
		other.Reply(chunked(strings.Repeat("y", 2<<20)))
		if j := s.get(s.only().JobID); j.Status != "completed" {
			t.Errorf("the call went %s", story(j))
		}
		start := time.Now()
		tells(t, s.settled(s.submit(to(other.URL("/")))), "completed 200: 200; delivered after 1")
		if r := s.call(to(other.URL("/"))); len(r.body) != 2<<20 {
			t.Errorf("answered %d bytes", len(r.body))
		}
		if took := time.Since(start); took > 10*time.Second || len(other.Requests()) != 2 {
			t.Errorf("it took %v and %d calls", took, len(other.Requests()))
		}
		if n := s.node.Gauge("aquifer_proxy_relay_bytes"); n < 3<<20 {
			t.Errorf("%v bytes are held for the slow caller", n)
		}
		for range 40 {
			<-time.After(9 * time.Second)
			if _, err := slow.Read(make([]byte, 70_000)); err != nil {
				break
			}
		}
		if n := s.node.Gauge("aquifer_proxy_relay_bytes"); n != 0 {
			t.Errorf("%v bytes are held after 6 minutes", n)
		}
		slow.hangUp()
	}, narrow)
}

// Callers hang up after whatever byte of an answer, or of the stream of a queued call: nothing of them stays behind, and
// others are served.
func TestPC08_CallersThatHangUp(t *testing.T) {
	for name, c := range map[string]struct {
		first, then nodetest.Reply
		events      string
	}{
		"answer": {nodetest.Text(strings.Repeat("answer ", 100)), nodetest.Text(strings.Repeat("answer ", 100)), ""},
		"stream": {nodetest.Status(503), nodetest.Text("done").Late(time.Second), "upstream_overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				for i := range 200 {
					s.target.Reply(c.first, c.then)
					caller := s.dial(s.node, callOf(s.submission()))
					caller.read(i * 3) // either has some 700 bytes
					caller.hangUp()
					if c.events != "" {
						s.node.WaitIdle()
						<-time.After(10 * time.Second) // the breaker
					}
				}
				<-time.After(time.Second)
				for _, gauge := range []string{"aquifer_queue_in_flight", "aquifer_target_in_flight", "aquifer_http_streams", "aquifer_event_subscriptions"} {
					if n := s.node.Gauge(gauge); n != 0 {
						t.Errorf("%s is %v", gauge, n)
					}
				}
				s.target.Reply(nodetest.Text("fine"))
				for range 100 {
					if r := s.call(); r.status != 200 || r.body != "fine" {
						t.Fatalf("answered %+v", r)
					}
				}
			}, takes(1000, 1))
		})
	}
}

// The same when all of them hang up at once, in the middle of the attempt.
func TestPC08_CallersThatHangUpAtOnce(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(2 * time.Second))
		var all []caller
		for range 200 {
			all = append(all, s.dial(s.node, callOf(s.submission())))
		}
		<-time.After(time.Second)
		if n := s.node.Gauge("aquifer_queue_in_flight"); n != 201 && n != 200 {
			t.Errorf("%v are in flight", n)
		}
		for _, c := range all {
			c.hangUp()
		}
		<-time.After(2 * time.Second)
		if n := s.shows().InFlight; n != 0 {
			t.Errorf("%d are in flight", n)
		}
		s.target.Reply(nodetest.Text("fine"))
		for range 100 {
			if r := s.call(); r.body != "fine" {
				t.Fatalf("answered %+v", r)
			}
		}
		s.node.WaitIdle()
		if n := len(s.receiver.Requests()); n != 200 {
			t.Errorf("%d deliveries of 200 results that nobody waited for", n)
		}
	}, takes(1000, 100))
}

// mortal is a call whose node may die.
type mortal struct {
	name    string
	reply   []nodetest.Reply
	retries int
	want    job.Status
	// most is how often the target may be called in all if it was so often before the death, and whether the first attempt had
	// begun.
	most func(before int, begun bool) int
}

// A call whose node dies at whatever step runs again from the queue, once, and is not lost once its target was called.
// Whatever was recorded before the caller had it is delivered. That an attempt was to go past the queue allows no other one.
func TestKL01_DeathInEveryGapOfACall(t *testing.T) {
	again := func(before int, _ bool) int { return before + 1 }
	for _, c := range []mortal{
		{"answered", []nodetest.Reply{nodetest.Text("done")}, 1, "completed", again},
		{"queued", []nodetest.Reply{nodetest.Status(503), nodetest.Text("done")}, 1, "completed", func(before int, _ bool) int { return max(2, before+1) }},
		{"failed", []nodetest.Reply{nodetest.Status(503)}, 0, "failed", func(_ int, begun bool) int {
			if begun {
				return 2
			}
			return 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gaps := int64(1)
			for died := true; died; gaps++ {
				t.Run(fmt.Sprint("step ", gaps), func(t *testing.T) {
					play(t, func(t *testing.T, s *stage) {
						died = dieInCall(t, s, c, gaps)
					})
				})
			}
			if gaps < 10 {
				t.Errorf("there were only %d steps", gaps)
			}
		})
	}
}

// dieInCall makes a call, with a death before the n-th step. It reports whether there were so many.
func dieInCall(t *testing.T, s *stage, c mortal, n int64) bool {
	t.Helper()
	s.target.Reply(c.reply...)
	st := &steps{s: s, by: nodetest.ProcessDeath, at: n}
	st.arm()
	sub := s.submission(retries(c.retries))
	whole := s.tryCall(sub)
	<-time.After(10 * time.Second)
	died := st.disarm()
	if !died {
		return false
	}
	before := s.calls()
	s.node.Start()
	s.node.WaitIdle()
	var all []client.Job
	for j, err := range s.node.Client().List(t.Context(), client.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.get(j.JobID))
	}
	calls, delivered := s.calls(), len(s.receiver.Requests())
	switch {
	case len(all) == 0 && (whole || calls > 0):
		t.Errorf("the job is lost after %d calls", calls)
	case len(all) == 0:
	case all[0].Status != c.want || calls > c.most(before, st.before(all[0].Attempts[0].StartedAt)):
		t.Errorf("the job went %s after %d calls, %d of them before the death", story(all[0]), calls, before)
	case !whole && delivered == 0:
		t.Error("the result has reached nobody")
	}
	return died
}

// before reports whether something happened before the death; at is in Unix ms.
func (st *steps) before(at int64) bool { return at <= time.Unix(0, st.killedAt.Load()).UnixMilli() }

// tryCall makes a call of a node that may die, and reports whether the whole result came.
func (s *stage) tryCall(sub client.Submission) bool {
	c, err := s.tryDial(s.node, callOf(sub))
	if err != nil {
		return false
	}
	defer c.hangUp()
	_ = c.SetReadDeadline(time.Now().Add(9 * time.Second))
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.HasSuffix(got.String(), "\r\n\r\ndone") && !strings.Contains(got.String(), `"body":"done"`) && !strings.Contains(got.String(), `"reason":"upstream returned 503","response_status":503}`) {
		n, err := c.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			return false
		}
	}
	return true
}
