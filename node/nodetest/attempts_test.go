package nodetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// The answer to an attempt that has timed out comes while the next one is open. The next one decides.
func TestST02_LateAnswerDecidesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("too late").Late(32*time.Second), nodetest.Status(500).Late(5*time.Second))
		id := s.submit(retries(1), timeout(30*time.Second))
		j := s.settled(id)
		tells(t, j, "failed 500: timeout 500; delivered after 1")
		calls := s.target.Requests()
		if len(calls) != 2 || !calls[0].AnsweredAt.After(calls[1].At) {
			t.Errorf("the scene was not as meant: %+v", calls)
		}
		if d := s.receiver.Of(id); len(d) != 1 || d[0].Message.Status != "failed" {
			t.Errorf("delivered %+v", d)
		}
	}, takes(10, 4))
}

// An attempt without a limit is alive as long as its connection: it is not repeated however long it
// takes, and its slot is taken.
func TestTM02_JobWithoutTimeoutIsNeverRescued(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(9*time.Hour), nodetest.Text("done"))
		long := s.submit(timeout(0))
		next := s.submit()
		j := s.settled(long)
		tells(t, j, "completed 200: 200; delivered after 1")
		if took := j.Attempts[0].DurationMS; took != (9 * time.Hour).Milliseconds() {
			t.Errorf("the attempt took %d ms", took)
		}
		tells(t, s.settled(next), "completed 200: 200; delivered after 1")
		if calls := s.target.Requests(); len(calls) != 2 || s.target.MostOpen() != 1 {
			t.Errorf("the target saw %d requests, %d at a time", len(calls), s.target.MostOpen())
		}
	})
}

// A target closes a kept connection at the moment when the next request is written to it. Whether that
// was read nobody knows, so the attempt is charged, marked, and repeated with the whole body.
func TestHP01_ConnectionClosedUnderTheRequest(t *testing.T) {
	for _, size := range []int{0, 100, 500_000} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				body := []byte(strings.Repeat("x", size))
				s.target.Reply(nodetest.Text("one").CloseOnNext(), nodetest.Text("two"))
				s.settled(s.submit())
				j := s.settled(s.submit(func(sub *client.Submission) { sub.Body = body }))
				tells(t, j, "completed 200: conn_closed_before_response 200; delivered after 1")
				if !j.Attempts[0].MaybeExecuted || j.Attempts[1].MaybeExecuted {
					t.Errorf("attempts %+v", j.Attempts)
				}
				if calls := s.target.Requests(); len(calls) != 2 || string(calls[1].Body) != string(body) {
					t.Errorf("the target read %d requests, the last with %d bytes", len(calls), len(calls[len(calls)-1].Body))
				}
			})
		})
	}
}

// A target that has closed its idle connections costs no attempt.
func TestHP01_IdleConnectionClosedBefore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.settled(s.submit())
		s.target.CloseIdle()
		<-time.After(time.Second)
		tells(t, s.settled(s.submit()), "completed 200: 200; delivered after 1")
		if calls := s.target.Requests(); len(calls) != 2 || calls[1].Conn != 2 {
			t.Errorf("the target saw %+v", calls)
		}
	})
}

// All connections to a target go silent, and its name moves. One attempt finds out; the next one looks
// the name up again instead of taking another dead connection.
func TestNW01_SilentConnectionsAndAMovedName(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("warm").Late(time.Second))
		for range 3 {
			s.submit()
		}
		s.node.WaitIdle()
		if n := s.target.MostOpen(); n != 3 {
			t.Fatalf("%d connections are warm", n)
		}
		s.Net.Cut(s.node.Machine, s.target.Machine)
		moved := s.Add(nodetest.NewServer(s.Net.Machine("other.test"), "80"))
		s.Net.Point("target.test", moved.Machine)

		tells(t, s.settled(s.submit(timeout(10*time.Second))), "completed 200: timeout 200; delivered after 1")
		if n := len(moved.Requests()); n != 1 {
			t.Errorf("the new machine saw %d requests", n)
		}
		s.Net.Heal(s.node.Machine, s.target.Machine)
	}, takes(10, 4))
}

// A target that cannot be reached is tried until the attempts are used up, and each class says why.
func TestTargetsOutOfReach(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(s *stage)
		want    string
	}{
		"nobody listens": {func(s *stage) { s.target.Stop() }, "failed 0: connect_refused connect_refused; delivered after 1"},
		"no such name":   {func(s *stage) { s.target.Address = "nobody.test:80" }, "failed 0: dns dns; delivered after 1"},
		"no answer": {
			func(s *stage) { s.Net.Cut(s.node.Machine, s.target.Machine) },
			"failed 0: connect_timeout connect_timeout; delivered after 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				c.arrange(s)
				tells(t, s.settled(s.submit(retries(1))), c.want)
			})
		})
	}
}
