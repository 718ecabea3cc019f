package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A pass that fails is not begun anew at once again and again, nor put off without bound; and what is lost after one that
// has succeeded is told at once.
func TestReminderWaitsAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ill := errors.New("ill")
		var away, forgot, fails bool
		var passes []time.Time
		r := reminder{
			lost: func(context.Context) (bool, error) {
				if away {
					return false, ill
				}
				lost := forgot
				forgot = false
				return lost, nil
			},
			tell: func(context.Context) error {
				passes = append(passes, time.Now())
				if fails {
					return ill
				}
				return nil
			},
		}
		after := func(d time.Duration) int {
			before := len(passes)
			time.Sleep(d)
			synctest.Wait()
			return len(passes) - before
		}
		away, fails = true, true
		go r.run(t.Context())
		if n := after(time.Hour); n != 0 {
			t.Errorf("%d passes while nobody listens", n)
		}
		away = false
		if n := after(time.Hour); n < 60 || n > 70 {
			t.Errorf("%d passes have failed in an hour", n)
		}
		for i := 2; i < len(passes); i++ {
			before, now := passes[i-1].Sub(passes[i-2]), passes[i].Sub(passes[i-1])
			if now < before || now > remindPauseMax+remindPause {
				t.Errorf("pass %d comes %v after the one before, and that came after %v", i, now, before)
			}
		}
		fails = false
		if n := after(2 * remindPauseMax); n != 1 {
			t.Errorf("%d passes instead of the one that succeeds", n)
		}
		for range 3 {
			forgot = true
			if n := after(remindPause); n != 1 {
				t.Errorf("%d passes after a loss", n)
			}
		}
		forgot, fails = true, true
		if n := after(4 * remindPause); n < 2 {
			t.Errorf("the wait is still that of the failures before: %d passes", n)
		}
	})
}
