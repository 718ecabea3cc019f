package handoff_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// benchJobs is for a larger run: go test -bench HandOff -benchtime 1x -handoff.jobs 100000
var benchJobs = flag.Int("handoff.jobs", 10_000, "jobs that BenchmarkHandOff hands over")

// pair are two peers on loopback that share the tenants.
type pair [2]handoff.Peer

func (p pair) Owner(_ context.Context, j *job.Job, _ []string) (handoff.Peer, bool) {
	return p[j.Request.UserID[0]%2], true
}
func (p pair) Member(id string) (handoff.Peer, bool) { return p[id[0]%2], true }
func (p pair) Anybody() bool                         { return true }

func openBench(b *testing.B) *pebblestore.Store {
	b.Helper()
	s, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir(), FlushInterval: 100 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func linesOf(s store.Store) handoff.Lines {
	q := func(l job.Line) *queue.Queue {
		return queue.New(queue.Config{Line: l, Backlog: s, Settings: func(string) pace.Settings { return pace.Settings{RPS: 1, MaxConcurrent: 1} }})
	}
	return handoff.Lines{Calls: q(job.Calls), Deliveries: q(job.Deliveries), Wake: func(time.Time) {}}
}

// fillBench queues jobs of 256 bytes for 64 tenants.
func fillBench(b *testing.B, s *pebblestore.Store, jobs int) {
	b.Helper()
	w := &world{t: b}
	var mu sync.Mutex
	var n atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := n.Add(1); i <= int64(jobs); i = n.Add(1) {
				mu.Lock()
				j := w.job(fmt.Sprintf("%c-%d", 'a'+i%2, i%64))
				mu.Unlock()
				j.Request.Body = make([]byte, 256)
				if _, err := s.Insert(b.Context(), j, store.Default); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkHandOff hands queued jobs to two peers on loopback, all three with real disks, in this process.
func BenchmarkHandOff(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	var took, processor time.Duration
	for range b.N {
		b.StopTimer()
		giving := openBench(b)
		fillBench(b, giving, *benchJobs)
		var peers pair
		var taking [2]*pebblestore.Store
		for i := range peers {
			taking[i] = openBench(b)
			taker, err := handoff.NewTaker(handoff.TakerConfig{
				Store: taking[i], Lines: linesOf(taking[i]), MaxBytes: 8 << 20, Logger: log,
				FromPeer: func(*http.Request) bool { return true }, Room: func(int64) error { return nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			server := httptest.NewServer(taker)
			b.Cleanup(server.Close)
			peers[i] = handoff.Peer{ID: fmt.Sprint(i), Address: server.URL}
		}
		transport := new(http.Transport)
		giver, err := handoff.NewGiver(handoff.GiverConfig{Store: giving, Unfinished: giving.Unfinished, Peers: peers, Transport: transport, Logger: log, Backlog: func() int { return 0 }})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began, before := time.Now(), processorTime()
		r, err := giver.Drain(b.Context(), over())
		took, processor = took+time.Since(began), processor+processorTime()-before
		b.StopTimer()
		if r != (handoff.Report{Handed: *benchJobs}) || err != nil {
			b.Fatal(r, err)
		}
		transport.CloseIdleConnections()
		if err := errors.Join(giving.Close(), taking[0].Close(), taking[1].Close()); err != nil {
			b.Fatal(err)
		}
	}
	jobs := float64(*benchJobs * b.N)
	b.ReportMetric(jobs/took.Seconds(), "jobs/s")
	b.ReportMetric(float64(processor.Microseconds())/jobs, "cpu-µs/job")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
