package nodetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A receiver that needs long has one open delivery for as long as it takes.
func TestWH01_SlowReceiver(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.receiver.Reply(nodetest.Status(200).Late(45*time.Second), nodetest.Status(200))
		id := s.submit()
		j := s.settled(id)
		tells(t, j, "completed 200: 200; delivered after 1")
		if d := s.receiver.Of(id); len(d) != 1 || s.receiver.MostOpen() != 1 {
			t.Errorf("%d deliveries, %d at a time", len(d), s.receiver.MostOpen())
		}
	})
}

// The node dies when the receiver has taken the result, before that is recorded. The next process
// delivers once more: the same id, the same bytes. The end of the job has had the time to reach the disk.
func TestWH02_DeathBeforeTheRecord(t *testing.T) {
	for _, by := range []nodetest.Death{nodetest.ProcessDeath, nodetest.PowerCut} {
		t.Run(by.String(), func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.target.Reply(nodetest.Text("result \xff").Late(time.Second)) // so that the caller has his answer first
				s.receiver.Answer(func(r nodetest.Request) nodetest.Reply {
					if r.N == 1 {
						<-time.After(10 * time.Millisecond)
						s.node.Kill(by)
					}
					return nodetest.Status(200)
				})
				id := s.submit()
				s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
				<-time.After(time.Minute)
				s.node.Start()
				tells(t, s.settled(id), "completed 200: 200; delivered after 1")
				d := s.receiver.Of(id)
				if len(d) != 2 || d[0].ID != d[1].ID || d[0].ID == "" || string(d[0].Body) != string(d[1].Body) {
					t.Errorf("deliveries %+v", d)
				}
				if n := len(s.target.Requests()); n != 1 {
					t.Errorf("the target saw %d requests", n)
				}
			}, synced)
		})
	}
}

// The power fails as soon as the receiver has got the result. The end of the job may not have been on the disk: then it
// is done again, and what the receiver gets has the same id.
func TestAPowerCutMayTakeAnEnd(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("result").Late(time.Second)) // so that the caller has his answer first
		s.receiver.Answer(func(r nodetest.Request) nodetest.Reply {
			if r.N == 1 {
				s.node.Kill(nodetest.PowerCut)
			}
			return nodetest.Status(200)
		})
		id := s.submit()
		s.Until(time.Minute, "killed", func() bool { return !s.node.Running() })
		s.node.Start()
		j := s.settled(id)
		if d := s.receiver.Of(id); j.Status != job.Completed || len(d) != 2 || d[0].ID != d[1].ID {
			t.Errorf("%s, deliveries %+v", j.Status, d)
		}
		if n := len(s.target.Requests()); n != 2 {
			t.Errorf("the target saw %d requests", n)
		}
	}, synced)
}

// What a receiver says decides whether it is asked again, and when.
func TestWH03_WhatAReceiverSays(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.receiver.Reply(
			nodetest.Status(404), nodetest.Status(408), nodetest.Status(425), nodetest.Status(429).With("Retry-After", "90"), nodetest.Status(410),
		)
		id := s.submit()
		j := s.settled(id)
		tells(t, j, "completed 200: 200; rejected after 5")
		d := s.receiver.Of(id)
		if len(d) != 5 || j.Webhook.LastStatus != 410 {
			t.Fatalf("%d deliveries, webhook %+v", len(d), j.Webhook)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 90 * time.Second} {
			wait := d[i+1].At.Sub(d[i].At)
			if wait < least || wait > least*11/10+time.Second {
				t.Errorf("delivery %d came %v after the one before, want %v", i+2, wait, least)
			}
			if d[i].ID != d[i+1].ID || string(d[i].Body) != string(d[i+1].Body) {
				t.Errorf("delivery %d differs from the one before", i+2)
			}
		}
	})
}

// A delivery that nobody took can be made again, whole.
func TestWH03_ExhaustedAndRedriven(t *testing.T) {
	for name, c := range map[string]struct {
		reply nodetest.Reply
		want  string
	}{
		"exhausted": {nodetest.Status(503), "completed 200: 200; failed after 5"},
		"rejected":  {nodetest.Status(410), "completed 200: 200; rejected after 1"},
		"silent":    {nodetest.Reset(), "completed 200: 200; failed after 5"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				body := strings.Repeat("r", 100_000) // more than is kept of a result
				s.target.Reply(nodetest.Text(body))
				s.receiver.Reply(c.reply)
				id := s.submit()
				tells(t, s.settled(id), c.want)
				tried := s.receiver.Requests()

				s.receiver.Reply(nodetest.Status(204))
				if err := s.node.Client().RedriveWebhook(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				tells(t, s.settled(id), "completed 200: 200; delivered after 1")
				all := s.receiver.Deliveries()
				last := all[len(all)-1]
				if len(all) != len(tried)+1 || last.ID != all[0].ID || string(last.Message.Bytes()) != body {
					t.Errorf("%d deliveries after %d, the last with %d bytes", len(all), len(tried), len(last.Message.Bytes()))
				}
				if n := len(s.target.Requests()); n != 1 {
					t.Errorf("the target saw %d requests", n)
				}
			})
		})
	}
}

// What is being delivered, or was, is not delivered beside itself.
func TestRedriveOfADelivery(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.receiver.Reply(nodetest.Status(503))
		id := s.submit()
		s.ended(id)
		if err := s.node.Client().RedriveWebhook(t.Context(), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("redrive of an unsettled delivery: %v", err)
		}
		s.settled(id)
		const nobody = "00000000000000000000000000000000"
		if err := s.node.Client().RedriveWebhook(t.Context(), nobody); !fault.Is(err, fault.NotFound) {
			t.Errorf("redrive for an unknown job: %v", err)
		}
	})
}

// The receiver learns why a job failed.
func TestDeliveryOfAFailure(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(500).Body("broken"))
		failed := s.submit(retries(0))
		s.settled(failed)
		s.target.Reply(nodetest.Text("late").Late(time.Hour))
		s.submit(timeout(0))
		<-time.After(time.Second)
		late := s.submit(func(sub *client.Submission) { sub.ExecuteBefore = time.Now().Add(time.Minute).UnixMilli() })
		j := s.settled(late)
		tells(t, j, "failed 0; delivered after 1")
		if d := s.receiver.Of(failed)[0].Message; d.Status != job.Failed || d.ResponseStatus != 500 || d.Reason != "upstream returned 500" || d.Body != "broken" {
			t.Errorf("delivered %+v", d)
		}
		d := s.receiver.Of(late)[0]
		if d.Message.Reason != "execution_deadline_exceeded" || j.Reason != d.Message.Reason {
			t.Errorf("delivered %+v", d.Message)
		}
		if at := d.At.Sub(time.UnixMilli(j.ExecuteBefore)); at < 0 || at > time.Second {
			t.Errorf("delivered %v after the deadline", at)
		}
		if n := len(s.target.Requests()); n != 2 {
			t.Errorf("the target saw %d requests", n)
		}
	})
}
