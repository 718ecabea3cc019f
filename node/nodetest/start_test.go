package nodetest_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A node whose port is taken does not start, and does not touch its store: the attempt that the last
// process did not survive is still open there.
func TestStartOnATakenPort(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Hang(), nodetest.Text("done"))
		id := s.submit()
		s.Until(time.Minute, "called", func() bool { return s.target.Open() == 1 })
		s.node.Kill(nodetest.ProcessDeath)
		other, err := s.node.Machine.Process().Listen(t.Context(), "tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		s.node.Disk.Tap(func() { t.Error("the store was touched") })
		for range 3 {
			if err := s.node.TryStart(); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("start: %v", err)
			}
		}
		s.node.Disk.Tap(nil)
		_ = other.Close()
		s.node.Start()
		tells(t, s.settled(id), "completed 200: crashed_worker 200; delivered after 1")
	})
}

// A node that cannot have its store gives its port back.
func TestStartWithoutItsStore(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.node.Stop()
		held, err := s.node.Disk.FS().Lock("/data/aquifer.db/LOCK")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.node.TryStart(); err == nil || errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("start: %v", err)
			}
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
		s.node.Start()
		tells(t, s.settled(s.submit()), "completed 200: 200; delivered after 1")
	})
}

// What waits goes on at the pace of the configuration that the next process has.
func TestRestartWithAnotherPace(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for range 100 {
			s.submit()
		}
		<-time.After(10 * time.Second)
		if n := len(s.target.Requests()); n < 10 || n > 12 {
			t.Errorf("%d calls in ten seconds", n)
		}
		s.node.Kill(nodetest.ProcessDeath)
		s.node.Configure(takes(20, 4))
		start, before := time.Now(), len(s.target.Requests())
		s.node.Start()
		s.node.WaitIdle()
		calls := s.target.Requests()
		if took := calls[len(calls)-1].At.Sub(start); took > time.Duration(len(calls)-before)*time.Second/20 {
			t.Errorf("the other %d calls took %v", len(calls)-before, took)
		}
	}, takes(1, 1))
}

// No body and no secret stands in the log, whatever goes wrong, nor where a job is shown.
func TestSecretsAreNotTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		const secret = "hunter2"
		s.target.Reply(nodetest.Status(500).Body(secret).With("Set-Cookie", secret), nodetest.Reset(), nodetest.Raw("garbage "+secret), nodetest.Hang())
		s.receiver.Reply(nodetest.Status(410).Body(secret))
		id := s.submit(timeout(time.Second), retries(3), func(sub *client.Submission) {
			sub.Headers = map[string]string{"Authorization": secret, "X-Api-Key": secret, "Cookie": secret, "X-My-Token": secret, "X-Plain": "shown"}
			sub.Body = []byte(secret)
		})
		j := s.settled(id)
		if j.Headers["X-Plain"] != "shown" || len(j.Headers) != 5 {
			t.Errorf("headers are shown as %v", j.Headers)
		}
		for name, value := range j.Headers {
			if strings.Contains(value, secret) {
				t.Errorf("%s is shown as %s", name, value)
			}
		}
		lines := s.node.Log()
		if len(lines) < 3 {
			t.Fatalf("the log has %d lines", len(lines))
		}
		for _, line := range lines {
			if strings.Contains(line, secret) {
				t.Errorf("logged: %s", line)
			}
		}
	}, takes(10, 1), func(c *node.Config) { c.LogLevel = "debug" })
}
