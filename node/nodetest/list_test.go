package nodetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

func (s *stage) list(q client.Query) (ids []string) {
	s.t.Helper()
	for j, err := range s.node.Client().List(s.t.Context(), q) {
		if err != nil {
			s.t.Fatalf("list: %v", err)
		}
		ids = append(ids, j.JobID)
	}
	return ids
}

// Pages follow each other without a hole and without a double while jobs come in and end.
func TestListWhileJobsComeIn(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		var ids []string
		more := func() {
			ids = append(ids, s.submit(user(fmt.Sprint("user-", len(ids)%2))))
			<-time.After(3 * time.Millisecond)
		}
		for range 90 {
			more()
		}
		there := len(ids)
		var got []string
		for j, err := range s.node.Client().List(t.Context(), client.Query{PageSize: 10}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, j.JobID)
			if len(got)%5 == 0 {
				more()
			}
		}
		for i, id := range got {
			if want := ids[there-1-i]; id != want {
				t.Fatalf("number %d of the list is %s, want %s", i, id, want)
			}
		}
		if len(got) != there {
			t.Errorf("%d jobs listed, %d were there", len(got), there)
		}
		s.node.WaitIdle()
		s.node.Stop()
		s.node.Start()
		if n := len(s.list(client.Query{UserID: "user-1", PageSize: 7})); n != len(ids)/2 {
			t.Errorf("%d jobs of one user listed, want %d", n, len(ids)/2)
		}
	}, takes(100, 5))
}

// A list can be narrowed to where jobs stand.
func TestListSelects(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		other := s.Target("other.test")
		other.Reply(nodetest.Status(500))
		good := s.submit()
		s.settled(good)
		<-time.After(time.Second)
		bad := s.submit(to(other.URL("/")), retries(0))
		s.settled(bad)
		<-time.After(time.Second)
		s.receiver.Reply(nodetest.Status(410))
		rejected := s.submit()
		s.settled(rejected)
		<-time.After(time.Second)
		s.target.Reply(nodetest.Text("late").Late(time.Hour))
		waiting := s.submit(timeout(0))
		for name, c := range map[string]struct {
			q    client.Query
			want []string
		}{
			"all":       {client.Query{}, []string{waiting, rejected, bad, good}},
			"queued":    {client.Query{Status: job.Queued}, []string{waiting}},
			"failed":    {client.Query{Status: job.Failed}, []string{bad}},
			"target":    {client.Query{Target: other.Address}, []string{bad}},
			"rejected":  {client.Query{Webhook: job.WebhookRejected}, []string{rejected}},
			"delivered": {client.Query{Webhook: job.WebhookDelivered, Status: job.Completed}, []string{good}},
			"nobody's":  {client.Query{UserID: "nobody"}, nil},
		} {
			if got := s.list(c.q); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
		if j := s.get(good); j.Status != job.Completed {
			t.Errorf("job is %s", story(j))
		}
	})
}

// What has ended is kept for its time, and then gone with its key.
func TestRetention(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		good := s.submit()
		s.settled(good)
		s.target.Reply(nodetest.Status(500))
		bad := s.submit(retries(0))
		s.settled(bad)
		for _, c := range []struct {
			wait time.Duration
			left int
		}{{29 * time.Minute, 2}, {2 * time.Minute, 1}, {88 * time.Minute, 1}, {2 * time.Minute, 0}} {
			<-time.After(c.wait)
			if n := len(s.list(client.Query{})); n != c.left {
				t.Errorf("%d jobs are kept, want %d", n, c.left)
			}
		}
		if _, err := s.node.Client().Get(t.Context(), good); err == nil {
			t.Error("an expired job is shown")
		}
	})
}
