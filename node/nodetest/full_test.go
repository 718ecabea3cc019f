package nodetest_test

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// large is a body that fills a disk soon. It does not compress.
func large(sub *client.Submission) {
	sub.Body = make([]byte, 300_000)
	x := uint32(len(sub.IdempotentKey)) + uint32(sub.IdempotentKey[len(sub.IdempotentKey)-1])*7919
	for i := range sub.Body {
		x = x*1664525 + 1013904223
		sub.Body[i] = 'a' + byte(x>>28)
	}
}

// fill submits large jobs until the node refuses one, and returns the ids of those that it took and the
// refusal.
func (s *stage) fill() (ids []string, refusal *client.Error) {
	s.t.Helper()
	for len(ids) < 1000 {
		got, err := s.node.Client().Submit(s.t.Context(), s.submission(large))
		if err != nil {
			if !errors.As(err, &refusal) || refusal.Fault.RetryAfter == 0 {
				s.t.Fatalf("after %d jobs: %v", len(ids), err)
			}
			return ids, refusal
		}
		ids = append(ids, got.JobID)
		<-time.After(10 * time.Millisecond)
	}
	s.t.Fatal("the disk does not become full")
	return nil, nil
}

// ready is the status of GET /ready.
func (s *stage) ready() int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.node.URL()+"/ready", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.Transport("balancer").RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode
}

// reopens waits until the node takes a job again.
func (s *stage) reopens(limit time.Duration) {
	s.t.Helper()
	s.Until(limit, "intake open again", func() bool {
		_, err := s.node.Client().Submit(s.t.Context(), s.submission())
		return err == nil
	})
}

// A small volume is filled with jobs. The node refuses before the disk is full, goes on with what it has,
// and opens again when that has gone.
func TestDK01_IntakeClosesBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) {
		s := &stage{Fleet: f, t: t, target: f.Target("target.test"), receiver: f.Receiver("receiver.test")}
		s.node = f.NewNode("one", takes(2, 4))
		s.node.Disk.Resize(32 << 20)
		s.node.MayFail = true // a compaction may have to wait for room
		s.node.Start()

		s.target.Reply(nodetest.Text("done").Late(time.Second))
		ids, refusal := s.fill()
		if refusal.Status != 429 || refusal.Fault.Limit == nil || refusal.Fault.Limit.Reason != "db_size" {
			t.Errorf("refused with %v", refusal)
		}
		if used := s.node.Disk.Used(); used > 31<<20 {
			t.Errorf("refused when %d MB of 32 were used", used>>20)
		}
		s.node.WaitIdle()
		for _, id := range ids {
			tells(t, s.get(id), "completed 200: 200; delivered after 1")
		}
		s.reopens(3 * time.Hour)
	})
}

// Something else fills the disk. The node refuses new jobs, ends those that it has, and takes new ones by
// itself once there is room. A node that starts on a full disk comes up.
func TestDK01_DiskFilledByOthers(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.node.MayFail = true
		s.target.Reply(nodetest.Text("done").Late(time.Second))
		var accepted []string
		for range 20 {
			accepted = append(accepted, s.submit(large))
		}
		<-time.After(3 * time.Second)
		s.node.Disk.Resize(s.node.Disk.Used() + 200_000)
		ids, refusal := s.fill()
		if refusal.Status != 503 && refusal.Status != 429 && refusal.Status != 507 {
			t.Errorf("refused with %v", refusal)
		}
		if ready := s.ready(); refusal.Status == http.StatusServiceUnavailable && ready != http.StatusServiceUnavailable {
			t.Errorf("ready says %d on a full disk", ready)
		}
		accepted = append(accepted, ids...)
		s.node.WaitIdle()
		for _, id := range accepted {
			tells(t, s.get(id), "completed 200: 200; delivered after 1")
		}
		full := s.node.Disk.Used()
		s.node.Stop()
		s.node.Disk.Resize(full)
		s.node.Start()
		if j := s.get(accepted[0]); j.Status != job.Completed {
			t.Errorf("after the restart: %s", story(j))
		}
		s.node.Disk.Resize(nodetest.DiskSize)
		s.reopens(time.Minute)
		if ready := s.ready(); ready != http.StatusOK {
			t.Errorf("ready says %d when there is room", ready)
		}
	}, takes(2, 4), func(c *node.Config) { c.DBMaxBytes = 0 })
}

// A disk on which syncs do not end closes the intake before much is at stake. What was accepted goes on,
// reads work, and the intake opens by itself when the disk does its part again.
func TestStuckDisk(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(5 * time.Second))
		before := s.submit()
		s.node.Disk.Stick(true)
		var refusal *client.Error
		s.Until(10*time.Second, "intake closed", func() bool {
			_, err := s.node.Client().Submit(t.Context(), s.submission(user("other"), retries(0)))
			return errors.As(err, &refusal)
		})
		if refusal.Status != 429 || refusal.Fault.Limit == nil || refusal.Fault.Limit.Reason != "sync_lag" || refusal.Fault.RetryAfter == 0 {
			t.Errorf("refused with %v", refusal)
		}
		if h, err := s.node.Client().Health(t.Context()); err != nil || h.Admission.SyncLagMS < 1000 || h.Admission.SyncLagMS > 3000 {
			t.Errorf("health %+v, %v", h, err)
		}
		tells(t, s.settled(before), "completed 200: 200; delivered after 1")
		s.node.Disk.Stick(false)
		s.reopens(5 * time.Second)
	})
}

// A node whose disk breaks ends by itself, and says why. What it had acknowledged is there in the next
// process, once the disk is well.
func TestBrokenDisk(t *testing.T) {
	for name, c := range map[string]struct {
		writes, syncs error
		edit          func(*node.Config)
	}{
		"writes fail, flush": {syscall.EIO, syscall.EIO, takes(2, 1)},
		"writes fail, sync":  {syscall.EIO, nil, synced},
		"syncs fail, sync":   {nil, syscall.EIO, synced},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.node.MayFail = true
				var ids []string
				for range 10 {
					ids = append(ids, s.submit())
				}
				s.Until(time.Minute, "some are sent", func() bool { return len(s.target.Requests()) > 2 })
				s.node.Disk.Break(c.writes, c.syncs)
				if _, err := s.node.Client().Submit(t.Context(), s.submission()); err == nil {
					t.Error("a job was taken that cannot be stored")
				}
				if err := s.node.Fallen(); !errors.Is(err, syscall.EIO) {
					t.Errorf("the node ended with %v", err)
				}
				s.node.Disk.Break(nil, nil)
				s.node.Start()
				s.node.WaitIdle()
				for _, id := range ids {
					if j := s.get(id); j.Status != job.Completed || j.Webhook.State != job.WebhookDelivered {
						t.Errorf("job went %s", story(j))
					}
				}
			}, c.edit)
		})
	}
}
