package nodetest_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// Fifty callers that come with one key at one moment have one job among them.
func TestID01_ParallelSubmissionsAreOneJob(t *testing.T) {
	for name, mode := range map[string]func(*node.Config){"flush": takes(2, 1), "sync": synced} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				var all sync.WaitGroup
				sub, got, errs := s.submission(), make([]client.Receipt, 50), make([]error, 50)
				for i := range got {
					all.Go(func() { got[i], errs[i] = s.node.Client().Submit(t.Context(), sub) })
				}
				all.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				fresh := 0
				for _, r := range got {
					if !r.Duplicate {
						fresh++
					}
					if r.JobID != got[0].JobID || r.PayloadMismatch {
						t.Errorf("receipt %+v beside %+v", r, got[0])
					}
				}
				tells(t, s.settled(got[0].JobID), "completed 200: 200; delivered after 1")
				if calls := len(s.target.Requests()); fresh != 1 || calls != 1 {
					t.Errorf("%d were told that the job is new, the target saw %d requests", fresh, calls)
				}
			}, mode)
		})
	}
}

// Another payload under a known key changes nothing. It is shown, or refused by a strict node; white
// space in the body counts.
func TestID02_AnotherPayloadUnderAKnownKey(t *testing.T) {
	first := func(sub *client.Submission) { sub.Body = []byte(`{"a":1}`) }
	for name, other := range map[string]func(*client.Submission){
		"other body":    func(sub *client.Submission) { sub.Body = []byte(`{"a":2}`) },
		"other spacing": func(sub *client.Submission) { sub.Body = []byte(`{"a": 1}`) },
		"other header":  func(sub *client.Submission) { sub.Headers = map[string]string{"X-A": "b"} },
		"other method":  func(sub *client.Submission) { sub.Method = "PUT" },
	} {
		t.Run(name, func(t *testing.T) {
			sameKey := func(sub *client.Submission) { sub.IdempotentKey = "the key" }
			play(t, func(t *testing.T, s *stage) {
				id := s.submit(first, sameKey)
				got, err := s.node.Client().Submit(t.Context(), s.submission(first, sameKey, other))
				if err != nil || got.JobID != id || !got.Duplicate || !got.PayloadMismatch {
					t.Errorf("got %+v, %v, want a mismatch with %s", got, err, id)
				}
				s.settled(id)
				if seen := s.target.Requests(); len(seen) != 1 || string(seen[0].Body) != `{"a":1}` {
					t.Errorf("the target saw %+v", seen)
				}
				if got, err = s.node.Client().Submit(t.Context(), s.submission(first, sameKey)); err != nil || got.PayloadMismatch || got.Status != job.Completed {
					t.Errorf("the same again: %+v, %v", got, err)
				}
			})
			play(t, func(t *testing.T, s *stage) {
				id := s.submit(first, sameKey)
				_, err := s.node.Client().Submit(t.Context(), s.submission(first, sameKey, other))
				var refused *client.Error
				if !errors.As(err, &refused) || refused.Status != 422 || !fault.Is(err, fault.Mismatch) || !strings.Contains(err.Error(), `"the key"`) {
					t.Errorf("a strict node: %v", err)
				}
				tells(t, s.settled(id), "completed 200: 200; delivered after 1")
			}, func(c *node.Config) { c.IdempotencyStrict = true })
		})
	}
}

// A key is free again when its job has expired, and not before.
func TestKeyLivesAsLongAsItsJob(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Hang())
		sub := s.submission(retries(-1), timeout(time.Hour))
		first, err := s.node.Client().Submit(t.Context(), sub)
		if err != nil {
			t.Fatal(err)
		}
		duplicate := func(want bool) {
			t.Helper()
			got, err := s.node.Client().Submit(t.Context(), sub)
			if err != nil || got.Duplicate != want || (got.JobID == first.JobID) != want {
				t.Errorf("at %v: %+v, %v", time.Now(), got, err)
			}
		}
		<-time.After(23 * time.Hour) // longer than any job that has ended is kept
		duplicate(true)
		s.target.Reply(nodetest.Text("at last"))
		tries := s.settled(first.JobID).Attempts
		end := time.UnixMilli(tries[len(tries)-1].StartedAt)
		<-time.After(time.Until(end.Add(29 * time.Minute)))
		duplicate(true)
		<-time.After(time.Until(end.Add(31 * time.Minute)))
		duplicate(false)
	})
}

// A redriven job is a new run with deliveries of its own.
func TestID04_RedriveRunsAgain(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("first"), nodetest.Text("second"))
		first := s.submit()
		s.settled(first)
		got, err := s.node.Client().Redrive(t.Context(), first)
		if err != nil || got.JobID == first || got.Duplicate || got.RedriveOf != first {
			t.Fatalf("redrive: %+v, %v", got, err)
		}
		again := s.settled(got.JobID)
		tells(t, again, "completed 200: 200; delivered after 1")
		if again.RedriveOf != first || again.Result.Body != "second" {
			t.Errorf("rerun %+v", again)
		}
		calls := s.target.Requests()
		if len(calls) != 2 || string(calls[1].Body) != string(calls[0].Body) ||
			calls[0].Header.Get("X-Aqueduct-Job-Id") != first || calls[1].Header.Get("X-Aqueduct-Job-Id") != got.JobID {
			t.Errorf("the target saw %+v", calls)
		}
		a, b := s.receiver.Of(first), s.receiver.Of(got.JobID)
		if len(a) != 1 || len(b) != 1 || a[0].ID == b[0].ID || a[0].ID == "" || a[0].Message.Body != "first" || b[0].Message.Body != "second" {
			t.Errorf("deliveries %+v and %+v", a, b)
		}
		// The key still stands for the first run.
		dup, err := s.node.Client().Submit(t.Context(), s.submission(func(sub *client.Submission) { sub.IdempotentKey = "key-1" }))
		if err != nil || dup.JobID != first {
			t.Errorf("the key is that of %+v, %v", dup, err)
		}
	})
}

// A job that has not ended is not run a second time.
func TestID04_RedriveOfAnUnfinishedJob(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("late").Late(time.Minute))
		id := s.submit()
		if _, err := s.node.Client().Redrive(t.Context(), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("redrive of a queued job: %v", err)
		}
		if err := s.node.Client().RedriveWebhook(t.Context(), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("redelivery for a queued job: %v", err)
		}
		tells(t, s.settled(id), "completed 200: 200; delivered after 1")
		if n := len(s.target.Requests()); n != 1 {
			t.Errorf("the target saw %d requests", n)
		}
	})
}
