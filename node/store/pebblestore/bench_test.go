package pebblestore_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// recoveryJobs is opt-in: go test -bench Recovery -recovery.jobs 1000000
var recoveryJobs = flag.Int("recovery.jobs", 20_000, "jobs that BenchmarkRecovery queues before it opens the store again")

var modes = map[string]pebblestore.Options{
	"flush": {FlushInterval: 100 * time.Millisecond},
	"sync":  {SyncInterval: 2 * time.Millisecond},
}

// eachMode runs a benchmark on real files in both modes and reports the processor time of an operation.
func eachMode(b *testing.B, bench func(b *testing.B, s *pebblestore.Store)) {
	for name, o := range modes {
		b.Run(name, func(b *testing.B) {
			o.Dir = b.TempDir()
			s, err := pebblestore.Open(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime()
			bench(b, s)
			b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var ids = job.IDs{Rand: rand.Reader}

func benchJob(n int64) *job.Job {
	id, err := ids.New(time.Now())
	if err != nil {
		panic(err)
	}
	return &job.Job{
		ID: id, CreatedAt: id.Time().UnixMilli(), Deadline: id.Time().Add(24 * time.Hour).UnixMilli(),
		Request: job.Request{
			UserID: fmt.Sprintf("user-%d", n%64), KeyName: fmt.Sprintf("key-%d", n), URL: "http://127.0.0.1:9001/work",
			Method: "POST", Headers: []job.Header{{Name: "Content-Type", Value: "application/json"}},
			Body: make([]byte, 256), WebhookURL: "http://127.0.0.1:9002/hook", MaxRetries: 4, TimeoutMS: job.UnsetTimeout,
		},
	}
}

// parallel runs op by 64 goroutines, as many as a busy node has callers and workers.
func parallel(b *testing.B, op func(ctx context.Context, n int64) error) {
	var n atomic.Int64
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := op(b.Context(), n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkInsert(b *testing.B) {
	eachMode(b, func(b *testing.B, s *pebblestore.Store) {
		parallel(b, func(ctx context.Context, n int64) error {
			_, err := s.Insert(ctx, benchJob(n), store.Default)
			return err
		})
	})
}

// BenchmarkLife is all that a job without trouble writes: Insert, Begin, Finish and Settle.
func BenchmarkLife(b *testing.B) {
	eachMode(b, func(b *testing.B, s *pebblestore.Store) {
		parallel(b, func(ctx context.Context, n int64) error { return life(ctx, s, benchJob(n)) })
	})
}

func life(ctx context.Context, s *pebblestore.Store, j *job.Job) error {
	in, err := s.Insert(ctx, j, store.Default)
	if err != nil {
		return err
	}
	now := time.Now()
	from, _ := job.State{Order: in.Entry.Order}.Begin(1)
	if err := s.Begin(ctx, in.Entry, from, now); err != nil {
		return err
	}
	next, _ := from.Finish(job.End{
		Status: job.Completed, At: now.UnixMilli(), Keep: 1_800_000, Last: &job.Attempt{Number: 1, Status: 200},
		Result: &job.Result{Status: 200, ContentType: "application/json", Body: []byte(`{"ok":true}`)},
	})
	if _, err := s.Finish(ctx, store.Finish{Job: j, Next: next}); err != nil {
		return err
	}
	return s.Settle(ctx, j.ID, job.Webhook{State: job.WebhookDelivered, Attempts: 1, LastStatus: 200})
}

func fill(b *testing.B, s *pebblestore.Store, jobs int) {
	for i := range jobs {
		j := benchJob(int64(i))
		if _, err := s.Insert(b.Context(), j, store.Default); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFindMiss(b *testing.B) {
	eachMode(b, func(b *testing.B, s *pebblestore.Store) {
		fill(b, s, 5000)
		b.ResetTimer()
		for i := range b.N {
			key := job.Key{Name: fmt.Sprint("absent", i)}.Hash()
			if _, err := s.Find(b.Context(), key); err != store.ErrNotFound {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList(b *testing.B) {
	eachMode(b, func(b *testing.B, s *pebblestore.Store) {
		fill(b, s, 5000)
		b.ResetTimer()
		for range b.N {
			page, err := s.List(b.Context(), store.Query{UserID: "user-7", Limit: 50})
			if err != nil || len(page.Jobs) != 50 {
				b.Fatal(len(page.Jobs), err)
			}
		}
	})
}

// BenchmarkRecovery opens a store with many queued jobs and reads them all, as a node does at its start.
func BenchmarkRecovery(b *testing.B) {
	o := modes["flush"]
	o.Dir = b.TempDir()
	s, err := pebblestore.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	var n atomic.Int64
	for n.Load() < int64(*recoveryJobs) {
		done := make(chan struct{})
		for range 64 {
			go func() {
				for i := n.Add(1); i <= int64(*recoveryJobs); i = n.Add(1) {
					if _, err := s.Insert(b.Context(), benchJob(i), store.Default); err != nil {
						b.Error(err)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 64 {
			<-done
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		s, err := pebblestore.Open(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		count := 0
		for _, err := range s.Waiting(b.Context(), job.Calls) {
			if err != nil {
				b.Fatal(err)
			}
			count++
		}
		b.ReportMetric(opened.Sub(start).Seconds()*1000, "open-ms")
		b.ReportMetric(time.Since(opened).Seconds()*1000, "waiting-ms")
		if count != *recoveryJobs {
			b.Fatalf("%d jobs wait", count)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
