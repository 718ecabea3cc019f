package node

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A stop takes no longer than its setting says if every step of it hangs, and the store has its own part of that.
func TestStopIsBoundedByItsSetting(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
		for _, patience := range []time.Duration{0, limit} {
			synctest.Test(t, func(t *testing.T) {
				start, never := time.Now(), make(chan struct{})
				defer synctest.Wait()
				defer close(never)
				hangs := step{"hangs", func() error { <-never; return nil }}
				plan := newSchedule(start, limit, patience)
				if patience > 0 && plan.work.Sub(start) < limit/2 || plan.work.Before(start) {
					t.Errorf("of %v, work has %v", limit, plan.work.Sub(start))
				}
				kept := plan.store.Sub(plan.work)
				if plan.ending.Sub(plan.work) < kept/2 || plan.serving.Sub(plan.ending) < kept/10 || plan.telling.Sub(plan.serving) < kept/5 {
					t.Errorf("of %v, a part has too little: %+v", limit, plan)
				}
				time.Sleep(time.Until(plan.work))
				log := slog.New(slog.DiscardHandler)
				for _, end := range []time.Time{plan.ending, plan.serving, plan.telling} {
					if err := inTurn(end, log, hangs, hangs, hangs); err != nil {
						t.Error(err)
					}
				}
				closes := time.Now()
				if err := inTurn(plan.store, log, hangs); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > limit {
					t.Errorf("a stop that may take %v took %v", limit, took)
				}
				if took := time.Since(closes); took < min(closing, limit/2)/5 {
					t.Errorf("of %v, the store has %v", limit, took)
				}
			})
		}
	}
}
