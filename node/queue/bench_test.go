package queue

import (
	"sync/atomic"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// push queues the n-th job of a benchmark, which the store knows nothing of.
func push(q *Queue, l job.Lane, n int64, held *job.Snapshot) {
	q.Reserve(l, id(int(n))).Push(job.Entry{Lane: l, Order: job.Order(n), ID: id(int(n))}, held)
}

// BenchmarkPushToRun is what a job costs from its reservation until its turn has ended, at a target
// without a pace, with up to 256 jobs at a time.
func BenchmarkPushToRun(b *testing.B) {
	room := make(chan struct{}, 256)
	q := newRig(Config{Settings: settings(1e9, 4096), Runner: runner(func(t *Turn) Verdict {
		t.Release(pace.Signal{})
		<-room
		return Ended
	})})
	stop := q.start(b)
	defer stop()
	var lanes [64]job.Lane
	for i := range lanes {
		lanes[i] = laneOf("api", i)
	}
	held := &job.Snapshot{Job: &job.Job{}}
	var last atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			room <- struct{}{}
			n := last.Add(1)
			push(q.Queue, lanes[n%int64(len(lanes))], n, held)
		}
	})
	q.idle(b)
}

// BenchmarkNextOfManyTenants is what a turn costs among 100,000 tenants with one job each, each of
// which queues the next one when its job is sent.
func BenchmarkNextOfManyTenants(b *testing.B) {
	const tenants = 100_000
	var last, turns int64
	q := newRig(Config{Settings: settings(1e9, 1)})
	next := func(l job.Lane) {
		last++
		push(q.Queue, l, last, nil)
	}
	done := make(chan struct{})
	q.cfg.Runner = runner(func(t *Turn) Verdict {
		switch turns++; {
		case turns < int64(b.N):
			next(t.Entry.Lane)
		case turns == int64(b.N):
			close(done)
		}
		return Ended
	})
	before := memory()
	for i := range tenants {
		next(laneOf("api", i))
	}
	each := float64(memory()-before) / tenants
	b.ResetTimer()
	stop := q.start(b)
	<-done
	b.StopTimer()
	q.idle(b)
	stop()
	b.ReportMetric(each, "bytes/tenant")
}
