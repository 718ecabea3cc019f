package nodetest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// stage is what most scenarios need: one node, one target, one receiver.
type stage struct {
	*nodetest.Fleet
	t        *testing.T
	node     *nodetest.Node
	target   *nodetest.Server
	receiver *nodetest.Receiver
	keys     int
}

// play runs a scenario on a new stage; edit changes the configuration of the node.
func play(t *testing.T, scene func(t *testing.T, s *stage), edit ...func(*node.Config)) {
	t.Helper()
	nodetest.Run(t, func(t *testing.T, f *nodetest.Fleet) { scene(t, newStage(t, f, edit...)) })
}

func newStage(t *testing.T, f *nodetest.Fleet, edit ...func(*node.Config)) *stage {
	t.Helper()
	s := &stage{Fleet: f, t: t, target: f.Target("target.test"), receiver: f.Receiver("receiver.test")}
	s.node = f.Node("one", edit...)
	return s
}

// takes lets targets and receivers take so much.
func takes(rps float64, concurrent int) func(*node.Config) {
	return func(c *node.Config) {
		for _, d := range []*node.Target{&c.Targets.Default, &c.Webhooks.Default} {
			d.RPS, d.MaxConcurrent = rps, concurrent
		}
	}
}

// synced acknowledges only what is on disk.
func synced(c *node.Config) { c.Pebble.FlushIntervalMS = 0 }

// submission is a job for the target with a key of its own.
func (s *stage) submission(edit ...func(*client.Submission)) client.Submission {
	s.keys++
	sub := client.Submission{
		UserID: "user", IdempotentKey: fmt.Sprint("key-", s.keys), Method: "POST",
		URL: s.target.URL("/work"), WebhookURL: s.receiver.URL("/hook"), Body: []byte("question"),
	}
	for _, e := range edit {
		e(&sub)
	}
	return sub
}

// submit gives the node a new job.
func (s *stage) submit(edit ...func(*client.Submission)) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	got, err := s.node.Client().Submit(ctx, s.submission(edit...))
	if err != nil {
		s.t.Fatalf("submit: %v", err)
	}
	return got.JobID
}

// send sends a request to the node as it is, from a machine of its own.
func (s *stage) send(method, path string, body io.Reader, headers map[string]string) (status int, h http.Header, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.node.URL()+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := s.Transport("caller.test").RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(all)
}

// user makes a job that of a user.
func user(id string) func(*client.Submission) {
	return func(sub *client.Submission) { sub.UserID = id }
}

// retries sets how often a job is retried.
func retries(n int) func(*client.Submission) {
	return func(sub *client.Submission) { sub.MaxRetries = &n }
}

// timeout bounds each attempt of a job.
func timeout(d time.Duration) func(*client.Submission) {
	ms := d.Milliseconds()
	return func(sub *client.Submission) { sub.TimeoutMS = &ms }
}

// to sends a job to another target.
func to(url string) func(*client.Submission) {
	return func(sub *client.Submission) { sub.URL = url }
}

func (s *stage) get(id string) client.Job {
	s.t.Helper()
	j, err := s.node.Client().Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatalf("get: %v", err)
	}
	return j
}

// ended waits until a job has ended.
func (s *stage) ended(id string) (j client.Job) {
	s.t.Helper()
	s.Until(25*time.Hour, "job ended", func() bool {
		j = s.get(id)
		return j.Status.Ended()
	})
	return j
}

// settled waits until the delivery of a job is over too.
func (s *stage) settled(id string) (j client.Job) {
	s.t.Helper()
	s.Until(25*time.Hour, "delivery settled", func() bool {
		j = s.get(id)
		return j.Webhook.State.Settled()
	})
	return j
}

// story is how a job went, such as "completed 200: 503 timeout 200; delivered after 2".
func story(j client.Job) string {
	var b strings.Builder
	b.WriteString(string(j.Status))
	if j.Result != nil {
		fmt.Fprint(&b, " ", j.Result.ResponseStatus)
	}
	for i, a := range j.Attempts {
		b.WriteString([]string{": ", " "}[min(i, 1)])
		switch {
		case a.Number != i+1:
			fmt.Fprintf(&b, "number %d", a.Number)
		case a.Error != "":
			b.WriteString(string(a.Error))
		default:
			fmt.Fprint(&b, a.ResponseStatus)
		}
	}
	fmt.Fprintf(&b, "; %s", j.Webhook.State)
	if j.Webhook.Attempts > 0 {
		fmt.Fprintf(&b, " after %d", j.Webhook.Attempts)
	}
	return b.String()
}

// tells fails the test unless the job went like this.
func tells(t *testing.T, j client.Job, want string) {
	t.Helper()
	if got := story(j); got != want {
		t.Errorf("job %s went %q with reason %q, want %q", j.JobID, got, j.Reason, want)
	}
}
