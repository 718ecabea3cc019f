package admit_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// A gate that memory has closed opens by itself, although nothing asks it, when what the peak has left is
// collected; while that does not help, it looks less and less often.
func TestGateOpensAfterAPeakOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{now: admit.Readings{Memory: 5 * mb}}
		var collections atomic.Int64
		var garbage atomic.Bool
		g := admit.New(admit.Config{
			Limits: admit.Limits{Memory: 10 * mb}, Sampler: m.sampler(),
			Collect: func() {
				collections.Add(1)
				if garbage.Load() {
					m.set(admit.Readings{Memory: 8 * mb})
				}
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()

		time.Sleep(time.Hour)
		if n := collections.Load(); n != 0 {
			t.Errorf("%d collections without need", n)
		}
		m.set(admit.Readings{Memory: 12 * mb})
		time.Sleep(10 * time.Minute)
		if n := collections.Load(); n < 10 || n > 20 {
			t.Errorf("%d collections in ten minutes that did not help", n)
		}
		if err := g.Admit(0); !fault.Is(err, fault.Overloaded) {
			t.Errorf("got %v", err)
		}
		garbage.Store(true)
		time.Sleep(time.Minute + time.Second)
		if err := g.Admit(0); err != nil {
			t.Errorf("still closed: %v", err)
		}
		garbage.Store(false)
		m.set(admit.Readings{Memory: 12 * mb})
		before := collections.Load()
		time.Sleep(2 * time.Second)
		if collections.Load() == before {
			t.Error("the next peak waits for as long as the last one")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Without a limit there is nothing to look for.
func TestGateWithoutMemoryLimitDoesNotRun(t *testing.T) {
	g := admit.New(admit.Config{Sampler: (&machine{}).sampler()})
	if err := g.Run(t.Context()); err != nil || g.Relieve() {
		t.Errorf("ran: %v", err)
	}
}

// The memory of this process closes the gate while it is needed, and not by what it leaves.
func TestRealPeakOfMemory(t *testing.T) {
	const peak = 128 * mb
	runtime.GC()
	sampler := admit.NewSampler(admit.Sources{
		Usage: func() (int64, time.Duration) { return 0, 0 },
		Space: func() (int64, int64, error) { return gb, 2 * gb, nil },
	})
	g := admit.New(admit.Config{Limits: admit.Limits{Memory: sampler.Read(time.Now()).Memory + peak/2}, Sampler: sampler})
	ballast := make([]byte, peak)
	sampler.Expire()
	if err := g.Admit(0); !fault.Is(err, fault.Overloaded) {
		t.Errorf("with %d MB: %v", len(ballast)/mb, err)
	}
	if !g.Relieve() {
		t.Error("not over the limit")
	}
	if err := g.Admit(0); !fault.Is(err, fault.Overloaded) {
		t.Errorf("with %d MB that are needed: %v", len(ballast)/mb, err)
	}
	runtime.KeepAlive(ballast)
	if !g.Relieve() {
		t.Error("closed no more before the garbage is collected")
	}
	if err := g.Admit(0); err != nil {
		t.Errorf("after the peak: %v", err)
	}
}
