//go:build unix

package queue

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkManyTargets is what it costs to pace 2,000 targets at one dispatch a second each, all with work
// and each at a moment of its own, as the part of one core. An iteration is a second.
func BenchmarkManyTargets(b *testing.B) {
	const targets = 2000
	var last, turns atomic.Int64
	q := newRig(Config{Settings: settings(1, 1)})
	next := func(i int) { push(q.Queue, laneOf(fmt.Sprint("api", i), i), last.Add(1), nil) }
	b.StopTimer()
	done := make(chan struct{})
	q.cfg.Runner = runner(func(t *Turn) Verdict {
		turns.Add(1)
		select {
		case <-done:
		default:
			push(q.Queue, t.Entry.Lane, last.Add(1), nil)
		}
		return Ended
	})
	stop := q.start(b)
	apart := time.NewTicker(time.Second / targets)
	for i := range targets {
		next(i)
		<-apart.C
	}
	apart.Stop()
	began, before, sent := time.Now(), processorTime(b), turns.Load()
	b.StartTimer()
	for b.Loop() {
		<-time.After(time.Second)
	}
	took := time.Since(began).Seconds()
	b.ReportMetric((processorTime(b)-before).Seconds()/took*100, "%core")
	b.ReportMetric(float64(turns.Load()-sent)/took, "dispatches/s")
	close(done)
	q.idle(b)
	stop()
}

// processorTime is what the process has used so far.
func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
