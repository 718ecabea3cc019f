package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A pass that fails is not begun anew at once again and again, nor put off without bound; and what is lost after one that
// has succeeded is told at once.
func TestReminderWaitsAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ill := errors.New("ill")
		var away, forgot, fails atomic.Bool
		var mu sync.Mutex // guards passes
		var passes []time.Time
		r := reminder{
			lost: func(context.Context) (bool, error) {
				if away.Load() {
					return false, ill
				}
				return forgot.Swap(false), nil
			},
			tell: func(context.Context) error {
				mu.Lock()
				passes = append(passes, time.Now())
				mu.Unlock()
				if fails.Load() {
					return ill
				}
				return nil
			},
		}
		all := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(passes)
		}
		after := func(d time.Duration) int {
			before := len(all())
			time.Sleep(d)
			synctest.Wait()
			return len(all()) - before
		}
		away.Store(true)
		fails.Store(true)
		go r.run(t.Context())
		if n := after(time.Hour); n != 0 {
			t.Errorf("%d passes while nobody listens", n)
		}
		away.Store(false)
		if n := after(time.Hour); n < 60 || n > 70 {
			t.Errorf("%d passes have failed in an hour", n)
		}
		failed := all()
		for i := 2; i < len(failed); i++ {
			before, now := failed[i-1].Sub(failed[i-2]), failed[i].Sub(failed[i-1])
			if now < before || now > remindPauseMax+remindPause {
				t.Errorf("pass %d comes %v after the one before, and that came after %v", i, now, before)
			}
		}
		fails.Store(false)
		if n := after(2 * remindPauseMax); n != 1 {
			t.Errorf("%d passes instead of the one that succeeds", n)
		}
		for range 3 {
			forgot.Store(true)
			if n := after(remindPause); n != 1 {
				t.Errorf("%d passes after a loss", n)
			}
		}
		forgot.Store(true)
		fails.Store(true)
		if n := after(4 * remindPause); n < 2 {
			t.Errorf("the wait is still that of the failures before: %d passes", n)
		}
	})
}
