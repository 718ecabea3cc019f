package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/link"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
	"github.com/aquifer-fleet/aquifer/node/results"
)

func TestMain(m *testing.M) { valkeytest.Main(m) }

// long is a timeout that a busy machine keeps.
const long = 10 * time.Second

// node is one with its region.
type node struct {
	*results.Region
	t      *testing.T
	tag    job.NodeTag
	reg    *prometheus.Registry
	number byte // of its jobs
	stop   func()
}

// config is that of a node whose jobs have its name in their ids.
func config(url, name string) results.Config {
	return results.Config{
		Target: link.Target{URL: url}, Node: job.TagOf(name), Timeout: long, Claims: true, Results: true, MaxBytes: 100,
	}
}

// start runs a node until the test ends.
func start(t *testing.T, c results.Config) *node {
	t.Helper()
	n := &node{t: t, tag: c.Node, reg: prometheus.NewRegistry()}
	c.Registerer = n.reg
	var err error
	if n.Region, err = results.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	n.stop = func() {
		cancel()
		<-ended
		n.Close()
	}
	t.Cleanup(n.stop)
	return n
}

// pair runs two nodes of one region.
func pair(t *testing.T) (s *valkeytest.Server, a, b *node) {
	t.Helper()
	s = valkeytest.Start(t)
	return s, start(t, config(s.URL(), "a")), start(t, config(s.URL(), "b"))
}

// job is a new one with a key, as this node accepts it.
func (n *node) job(user, name string) *job.Job {
	n.number++
	now := time.Now()
	id := job.ID{15: n.number}
	copy(id[6:9], n.tag[:])
	return &job.Job{
		ID: id, Request: job.Request{UserID: user, KeyName: name}, CreatedAt: now.UnixMilli(), Deadline: now.Add(time.Hour).UnixMilli(),
	}
}

// claims claims the key of a job, which must succeed.
func (n *node) claims(j *job.Job) {
	n.t.Helper()
	if h, err := n.Claim(n.t.Context(), j.Request.Key(), j.ID, 0); h != nil || err != nil {
		n.t.Errorf("the key is held: %+v, %v", h, err)
	}
}

// meets claims the key of a job that another job must have.
func (n *node) meets(j, other *job.Job, status job.Status) *results.Holder {
	n.t.Helper()
	h, err := n.Claim(n.t.Context(), j.Request.Key(), j.ID, 0)
	if err != nil || h == nil || h.ID != other.ID || h.Status != status {
		n.t.Fatalf("got %+v, %v, want %s, which is %s", h, err, other.ID, status)
	}
	return h
}

// ended is a job that has ended with an answer.
func ended(j *job.Job, body string) job.Snapshot {
	return job.Snapshot{Job: j, State: job.State{
		Status: job.Completed, EndedAt: time.Now().UnixMilli(), Result: &job.Result{Status: 200, ContentType: "text/plain", Body: []byte(body)},
	}}
}

func (n *node) counted(name, outcome string) float64 {
	n.t.Helper()
	return metrictest.Value(n.t, n.reg, name, outcome)
}

// stands waits until there is an object with these fields at a key, and returns it.
func stands(t *testing.T, s *valkeytest.Server, key string, fields map[string]any) (got map[string]any) {
	t.Helper()
	valkeytest.Until(t, func() error {
		text := s.Get(key)
		got = nil
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return err
		}
		for name, want := range fields {
			if got[name] != want {
				return errors.New(name + " is not there: " + text)
			}
		}
		return nil
	})
	return got
}

func entryKey(j *job.Job) string {
	return "aqueduct:idempotency:" + j.Request.Key().WireHash()
}

func resultKey(j *job.Job) string {
	return "aqueduct:result:" + j.Request.Key().WireHash()
}
