package results_test

import (
	"errors"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

// each iterates over jobs, and then fails if there is an error.
func each(err error, jobs ...job.Snapshot) iter.Seq2[job.Snapshot, error] {
	return func(yield func(job.Snapshot, error) bool) {
		for _, s := range jobs {
			if !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(job.Snapshot{}, err)
		}
	}
}

// Results are set where there is none, one of an earlier job, or no result at all. One that is there is not replaced by
// what the node has of it later, nor by that of an earlier job.
func TestKeepResults(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	absent, other, garbage, list, same := n.job("u", "absent"), n.job("u", "other"), n.job("u", "garbage"), n.job("u", "list"), n.job("u", "same")
	old, later := n.job("u", "old"), `{"job_id":"`+strings.Repeat("f", 32)+`"}`
	s.Do("SET", resultKey(other), `{"job_id":"`+strings.Repeat("0", 32)+`"}`)
	s.Do("SET", resultKey(old), later)
	s.Do("SET", resultKey(garbage), `{`)
	s.Do("LPUSH", resultKey(list), "x")
	whole := `{"job_id":"` + same.ID.String() + `","status":"completed","body":"whole"}`
	s.Do("SET", resultKey(same), whole, "EX", "10")
	var jobs []job.Snapshot
	want := make(map[job.ID]string)
	for _, j := range []*job.Job{absent, other, garbage, list, same, old} {
		jobs = append(jobs, ended(j, "kept"))
		want[j.ID] = resultKey(j)
	}
	names, err := n.KeepResults(t.Context(), each(nil, jobs...))
	if err != nil || !maps.Equal(names, want) {
		t.Fatalf("got %v, %v", names, err)
	}
	for _, snapshot := range jobs {
		text := results.Snapshot(snapshot, nil, 100)
		switch snapshot.Job {
		case same:
			text = whole
		case old:
			text = later
		}
		if got := s.Get(resultKey(snapshot.Job)); got != text {
			t.Errorf("%s: got %s, want %s", snapshot.Job.Request.KeyName, got, text)
		}
		if left, _ := s.Do("TTL", resultKey(snapshot.Job)).AsInt64(); left < 7100 || left > 7200 {
			t.Errorf("%s: kept for %d s", snapshot.Job.Request.KeyName, left)
		}
	}
}

// Many results go in several calls.
func TestKeepManyResults(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	c := config(s.URL(), "a")
	c.MaxBytes = 1 << 20
	n := start(t, c)
	var jobs []job.Snapshot
	for i := range 600 {
		body := "small"
		if i%100 == 0 {
			body = strings.Repeat("x", 900<<10)
		}
		j := n.job("u", strings.Repeat("k", i+1))
		j.ID[0], j.ID[1] = byte(i>>8), byte(i)
		jobs = append(jobs, ended(j, body))
	}
	names, err := n.KeepResults(t.Context(), each(nil, jobs...))
	if err != nil || len(names) != len(jobs) {
		t.Fatalf("%d names, %v", len(names), err)
	}
	for _, snapshot := range jobs {
		if s.Get(names[snapshot.Job.ID]) != results.Snapshot(snapshot, nil, 1<<20) {
			t.Errorf("%s is not there", snapshot.Job.ID)
		}
	}
}

// Whoever cannot keep everything says so.
func TestKeepResultsFails(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	errDisk := errors.New("the disk is on fire")
	if _, err := n.KeepResults(t.Context(), each(errDisk, ended(n.job("u", "k"), "x"))); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	s.Kill()
	if _, err := n.KeepResults(t.Context(), each(nil)); err != nil {
		t.Errorf("nothing to keep: %v", err)
	}
	if _, err := n.KeepResults(t.Context(), each(nil, ended(n.job("u", "k"), "x"))); err == nil {
		t.Error("a Valkey that is gone keeps everything")
	}
	var none *results.Region
	if _, err := none.KeepResults(t.Context(), each(nil, ended(n.job("u", "k"), "x"))); err == nil {
		t.Error("nobody keeps everything")
	}
}
