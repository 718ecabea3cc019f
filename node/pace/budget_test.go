package pace

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drive dispatches as often as the budget allows during a span, each dispatch late by what late
// returns, and returns when each started.
func drive(b *Budget, from time.Time, span time.Duration, late func() time.Duration) []time.Time {
	var starts []time.Time
	for now := from; now.Sub(from) < span; {
		wait, ok := b.Wait(now)
		if !ok {
			return starts
		}
		if wait > 0 {
			now = now.Add(wait + late())
			continue
		}
		b.Take(now)
		b.Done(Signal{}, now)
		starts = append(starts, now)
	}
	return starts
}

func punctual() time.Duration { return 0 }

// most returns the largest number of starts in any window of this length.
func most(starts []time.Time, window time.Duration) int {
	var most, first int
	for i, at := range starts {
		for at.Sub(starts[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func TestBudgetHoldsItsRate(t *testing.T) {
	for _, rps := range []float64{0.25, 1, 3, 49.9, 50, 1000, 5000} {
		const span = 200 * time.Second
		starts := drive(NewBudget(Settings{RPS: rps, MaxConcurrent: 1}), start, span, punctual)
		if n, want := float64(len(starts)), rps*span.Seconds(); n < want || n > want+1+rps*Slack.Seconds() {
			t.Errorf("%v rps: %v dispatches in %v, want %v", rps, n, span, want)
		}
		if n := float64(most(starts, time.Second)); n > rps*(time.Second+Slack).Seconds()+1 {
			t.Errorf("%v rps: %v dispatches in one second", rps, n)
		}
	}
}

func TestBudgetAt50ASecondIsNeverAbove51(t *testing.T) {
	starts := drive(NewBudget(Settings{RPS: 50, MaxConcurrent: 1}), start, time.Minute, punctual)
	if n := most(starts, time.Second); n > 51 {
		t.Errorf("%d dispatches in one second", n)
	}
}

func TestBudgetMakesUpForLateTimers(t *testing.T) {
	starts := drive(NewBudget(Settings{RPS: 5000, MaxConcurrent: 1}), start, 20*time.Second, func() time.Duration { return 7 * time.Millisecond })
	if n := len(starts); n < 99_990 || n > 100_051 {
		t.Errorf("%d dispatches in 20 s, want 100000", n)
	}
}

func TestBudgetDoesNotSaveUp(t *testing.T) {
	b := NewBudget(Settings{RPS: 10, MaxConcurrent: 1})
	drive(b, start, time.Second, punctual)
	starts := drive(b, start.Add(time.Hour), time.Second, punctual)
	if n := most(starts, time.Second); n > 11 {
		t.Errorf("%d dispatches in the first second after an idle hour", n)
	}
}

func TestBudgetBoundsConcurrency(t *testing.T) {
	b := NewBudget(Settings{RPS: 1e9, MaxConcurrent: 3})
	for i := range 3 {
		if wait, ok := b.Wait(start); !ok || wait != 0 {
			t.Fatalf("dispatch %d: %v, %v", i, wait, ok)
		}
		b.Take(start)
	}
	if _, ok := b.Wait(start); ok {
		t.Fatal("a fourth dispatch is allowed")
	}
	b.Configure(Settings{RPS: 1e9, MaxConcurrent: 2})
	b.Done(Signal{}, start)
	if _, ok := b.Wait(start); ok || b.InFlight() != 2 {
		t.Fatalf("a lower limit does not count what is open: %d open", b.InFlight())
	}
	b.Done(Signal{}, start)
	if _, ok := b.Wait(start); !ok {
		t.Fatal("no room though one of two is open")
	}
}

func TestBudgetDoneTooOftenMakesNoRoom(t *testing.T) {
	b := NewBudget(Settings{RPS: 1e9, MaxConcurrent: 1})
	b.Done(Signal{}, start)
	b.Take(start)
	if _, ok := b.Wait(start); ok || b.InFlight() != 1 {
		t.Error("a second dispatch is allowed")
	}
}

func TestConfigureAppliesToTheWaitGoingOn(t *testing.T) {
	b := NewBudget(Settings{RPS: MinRPS, MaxConcurrent: 10})
	b.Take(start)
	if wait, _ := b.Wait(start); wait < 3900*time.Millisecond || wait > 4*time.Second {
		t.Fatalf("at %v rps the wait is %v", b.Rate(), wait)
	}
	b.Configure(Settings{RPS: 100, MaxConcurrent: 10})
	if wait, _ := b.Wait(start); wait > 10*time.Millisecond {
		t.Errorf("raised to %v rps the wait is still %v", b.Rate(), wait)
	}
	b.Configure(Settings{RPS: 1, MaxConcurrent: 10})
	if wait, _ := b.Wait(start); wait < 900*time.Millisecond || wait > time.Second {
		t.Errorf("lowered to %v rps the wait is %v", b.Rate(), wait)
	}
}

func TestBudgetOfUnusableSettings(t *testing.T) {
	for _, rps := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		b := NewBudget(Settings{RPS: rps, MaxConcurrent: 0})
		if b.Rate() != MinRPS {
			t.Errorf("%v rps: rate is %v", rps, b.Rate())
		}
		if wait, ok := b.Wait(start); !ok || wait != 0 {
			t.Errorf("%v rps: the first dispatch waits %v, %v", rps, wait, ok)
		}
	}
	for _, rps := range []float64{math.SmallestNonzeroFloat64, 1e-12} {
		b := NewBudget(Settings{RPS: rps, MaxConcurrent: 2})
		b.Take(start)
		if wait, ok := b.Wait(start); !ok || wait < 100*365*24*time.Hour {
			t.Errorf("%v rps: wait is %v", rps, wait)
		}
	}
}

// The promise of the package: whatever is asked, whenever, the bounds of rate and concurrency hold.
func TestBudgetKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Settings{RPS: rapid.Float64Range(MinRPS, 10_000).Draw(t, "rps"), MaxConcurrent: rapid.IntRange(1, 20).Draw(t, "max")}
		b, now := NewBudget(set), start
		var starts []time.Time
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e6, 50e6).Draw(t, "ns")))
			if rapid.Bool().Draw(t, "done") {
				b.Done(Signal{}, now)
			}
			wait, ok := b.Wait(now)
			if again, _ := b.Wait(latest(now, b.spent.settled).Add(wait)); ok && again != 0 {
				t.Fatalf("after waiting %v there is another wait of %v", wait, again)
			}
			if !ok || wait > 0 {
				continue
			}
			b.Take(now)
			starts = append(starts, b.spent.settled)
			if b.InFlight() > set.MaxConcurrent {
				t.Fatalf("%d open", b.InFlight())
			}
			for i, first := range starts {
				span := b.spent.settled.Sub(first)
				bound := set.RPS*(span+Slack).Seconds() + 1
				if n := float64(len(starts) - i); n > bound+rounding+1e-9 {
					t.Fatalf("%v dispatches in %v at %v rps", n, span, set.RPS)
				}
			}
		}
	})
}

func BenchmarkBudget(b *testing.B) {
	budget, now := NewBudget(Settings{RPS: 1e9, MaxConcurrent: 10}), start
	for b.Loop() {
		now = now.Add(time.Microsecond)
		if wait, ok := budget.Wait(now); !ok || wait > 0 {
			b.Fatal(wait, ok)
		}
		budget.Take(now)
		budget.Done(Signal{}, now)
	}
}
