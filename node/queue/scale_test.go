package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/pace"
)

func TestIdleTargetsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1, 1), Runner: runner(endAll)})
		stop := q.start(t)
		defer stop()
		q.add(laneOf("old", 1), 1)
		time.Sleep(2 * time.Hour)
		for i := range maxIdleTargets - 2 {
			q.add(laneOf(fmt.Sprint("api", i), 1), 1)
		}
		q.idle(t)
		q.add(laneOf("busy", 1), 100)
		q.add(laneOf("one more", 1), 1)
		switch n := len(q.targets); {
		case n > maxIdleTargets/2+3:
			t.Errorf("%d targets are remembered", n)
		case q.find("http://old") != nil:
			t.Error("a target idle for two hours is remembered")
		case q.find("http://busy") == nil:
			t.Error("a target with work is dropped")
		}
		q.idle(t)
	})
}

func TestAHundredThousandTenants(t *testing.T) {
	const tenants = 100_000
	q := newRig(Config{Settings: settings(1e9, 1), Runner: runner(endAll)})
	before := memory()
	goroutines := runtime.NumGoroutine()
	for i := range tenants {
		q.add(laneOf("api", i), 1)
	}
	lanes := int64(memory()) - int64(before)
	if each := (lanes - disksShare(q.disk)) / tenants; each > 1024 {
		t.Errorf("%d bytes for a lane with one job", each)
	}
	if n := runtime.NumGoroutine(); n > goroutines+1 {
		t.Errorf("%d goroutines for %d tenants", n-goroutines, tenants)
	}
	stop := q.start(t)
	q.idle(t)
	stop()
	q.empty(t)
}

// disksShare is what a disk needs at least for its entries.
func disksShare(d *disk) int64 { return int64(len(d.lanes)) * 56 }

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Everything at once, with real goroutines, while the queue starts and stops.
func TestStartAndStopUnderLoad(t *testing.T) {
	var sent atomic.Int64
	q := newRig(Config{Settings: settings(1e9, 8), Window: 4})
	q.cfg.Runner = runner(func(t *Turn) Verdict {
		q.disk.remove(t.Entry)
		sent.Add(1)
		t.Release(pace.Signal{})
		return Ended
	})
	const producers, jobs = 8, 400
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range jobs {
				l, n := laneOf(fmt.Sprint("api", rand.IntN(3)), rand.IntN(5)), id(1+p*jobs+i)
				place := q.Reserve(l, n)
				if i%7 == 0 {
					place.Cancel()
					continue
				}
				place.Push(q.disk.insert(l, n), nil)
				q.Load(l)
				q.Stats()
			}
		})
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.Run(ctx) }()
		q.Reconfigure(nil)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	stop := q.start(t)
	q.idle(t)
	stop()
	q.empty(t)
	if want := int64(producers * (jobs - (jobs+6)/7)); sent.Load() != want {
		t.Errorf("%d turns, want %d", sent.Load(), want)
	}
}
