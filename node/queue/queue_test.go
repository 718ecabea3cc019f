package queue

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

func endAll(*Turn) Verdict { return Ended }

func TestNothingStartsBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1e9, 10), Runner: runner(endAll)})
		q.add(laneOf("api", 1), 3)
		synctest.Wait()
		if s := q.Stats(); s != (Stats{Backlog: 3, Waiting: 3, Targets: 1, Lanes: 1}) {
			t.Errorf("before Run: %+v", s)
		}
		stop := q.start(t)
		q.idle(t)
		stop()
		stop()
		q.empty(t)
	})
}

func TestRunTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1e9, 10), Runner: runner(endAll)})
		for range 3 {
			stop := q.start(t)
			synctest.Wait()
			if err := q.Run(t.Context()); !errors.Is(err, ErrRunning) {
				t.Errorf("a second Run returns %v", err)
			}
			q.add(laneOf("api", 1), 3)
			q.idle(t)
			stop()
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		q.add(laneOf("api", 1), 3)
		if err := q.Run(over); err != nil || q.Stats().Waiting != 3 {
			t.Errorf("a Run that is over at once: %v, %+v", err, q.Stats())
		}
	})
}

func TestRunFinishesWhatIsOpenAndStartsNothingMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended atomic.Int64
		q := New(Config{Settings: settings(1e9, 2), Backlog: newDisk(), Runner: ctxRunner(func(ctx context.Context) {
			time.Sleep(time.Minute)
			if ctx.Err() == nil {
				ended.Add(1)
			}
		})})
		r := &rig{Queue: q, disk: newDisk()}
		stop := r.start(t)
		r.add(laneOf("api", 1), 5)
		synctest.Wait()
		from := time.Now()
		stop()
		if took := time.Since(from); took != time.Minute || ended.Load() != 2 {
			t.Errorf("Run ended after %v with %d turns finished; want 1m0s and 2", took, ended.Load())
		}
		if s := q.Stats(); s.Waiting != 3 || s.InFlight != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

type ctxRunner func(ctx context.Context)

func (r ctxRunner) Run(ctx context.Context, _ *Turn) Verdict {
	r(ctx)
	return Ended
}

func TestRunEndsWhileATimerIsArmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(0.25, 2), Runner: runner(endAll)})
		stop := q.start(t)
		q.add(laneOf("api", 1), 5)
		synctest.Wait()
		from := time.Now()
		stop()
		if took := time.Since(from); took != 0 {
			t.Errorf("Run ended after %v", took)
		}
		stop = q.start(t)
		q.idle(t)
		stop()
		q.empty(t)
	})
}

// A Runner that panics, or ends its goroutine, costs its job the turn and nobody anything else.
func TestARunnerThatBreaksLeaksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		var turns int
		registry := prometheus.NewRegistry()
		q := newRig(Config{
			Settings: settings(1e9, 1), Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Runner: runner(func(t *Turn) Verdict {
				turns++
				switch turns % 4 {
				case 0:
					panic("before the release")
				case 1:
					t.Release(pace.Signal{})
					panic(errors.New("after the release"))
				case 2:
					runtime.Goexit()
				}
				return Ended
			}),
		})
		stop := q.start(t)
		for i := range 40 {
			q.add(laneOf("api", i%3), 1)
		}
		q.idle(t)
		stop()
		q.empty(t)
		if turns != 40 {
			t.Errorf("%d turns, want 40", turns)
		}
		if n := strings.Count(log.String(), "turn panicked"); n != 20 || !strings.Contains(log.String(), "before the release") {
			t.Errorf("%d panics are logged, want 20", n)
		}
		if n := value(t, registry, "aquifer_queue_panics_total"); n != 20 {
			t.Errorf("%v panics are counted", n)
		}
	})
}

func TestReadingsThatFailAreRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		var s starts
		registry := prometheus.NewRegistry()
		q := newRig(Config{
			Settings: settings(1e9, 100), Window: 4, Registerer: registry,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Runner: runner(func(t *Turn) Verdict { s.note(t); return Ended }),
		})
		failures := 0
		q.disk.read = func(context.Context, job.Lane) error {
			if failures++; failures <= 5 {
				return errors.New("no disk")
			}
			return nil
		}
		q.add(laneOf("api", 1), 100)
		from := time.Now()
		stop := q.start(t)
		q.idle(t)
		if took := time.Since(from); took != 31*time.Second { // 1+2+4+8+16
			t.Errorf("5 failed readings took %v", took)
		}
		stop()
		q.empty(t)
		if n := len(s.all()); n != 100 {
			t.Errorf("%d turns, want 100", n)
		}
		if n := strings.Count(log.String(), "lane not read"); n != 5 {
			t.Errorf("%d failures are logged, want 5", n)
		}
		if n := value(t, registry, "aquifer_queue_failed_reads_total"); n != 5 {
			t.Errorf("%v failures are counted", n)
		}
	})
}

func TestRunEndsWhileReadingsFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := true
		q := newRig(Config{Settings: settings(1e9, 100), Window: 4, Runner: runner(endAll)})
		q.disk.read = func(context.Context, job.Lane) error {
			if broken {
				return errors.New("no disk")
			}
			return nil
		}
		q.add(laneOf("api", 1), 100)
		stop := q.start(t)
		time.Sleep(10 * time.Second)
		stop()
		broken = false
		stop = q.start(t)
		q.idle(t)
		stop()
		q.empty(t)
	})
}

func TestHeldJobsStayWithinTheirBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var held, read int
		q := newRig(Config{Settings: settings(100, 1), HeldBytes: 10_000, Runner: runner(func(t *Turn) Verdict {
			if t.Held != nil {
				held++
			} else {
				read++
			}
			return Ended
		})})
		body := &job.Snapshot{Job: &job.Job{Request: job.Request{Body: make([]byte, 2000)}}}
		for i := range 20 {
			l := laneOf("api", i)
			q.Reserve(l, id(i)).Push(q.disk.insert(l, id(i)), body)
			if n := q.held.Load(); n > 10_000 {
				t.Fatalf("%d bytes are held", n)
			}
		}
		stop := q.start(t)
		q.idle(t)
		stop()
		q.empty(t)
		if held != 3 || read != 17 {
			t.Errorf("%d jobs were held and %d not, want 3 and 17", held, read)
		}
	})
}

func TestWaitIdleDoesNotCountWhatWaitsForARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1e9, 10), Runner: runner(func(*Turn) Verdict {
			time.Sleep(time.Second)
			return Waits
		})})
		stop := q.start(t)
		defer stop()
		q.add(laneOf("api", 1), 3)
		done := make(chan error)
		for range 3 {
			go func() { done <- q.WaitIdle(t.Context()) }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if s := q.Stats(); s.Backlog != 3 || s.Waiting != 0 || s.InFlight != 0 {
			t.Errorf("idle with %+v", s)
		}
		p := q.Reserve(laneOf("api", 1), id(9))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.WaitIdle(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("idle with a reservation: %v", err)
		}
		p.Cancel()
		q.idle(t)
	})
}
