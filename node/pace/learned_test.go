package pace

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// answer is what a target says with a success.
func answer(pairs ...string) Signal { return ReadSignal(200, false, headers(pairs...), start) }

// refusal is what it says with a failure.
func refusal(status int, pairs ...string) Signal {
	return ReadSignal(status, true, headers(pairs...), start)
}

func full(fill string) Signal { return answer(orcaHeader, "TEXT kv_cache_usage_perc="+fill) }

func at(d time.Duration) time.Time { return start.Add(d) }

// near tells that two rates are the same to a person.
func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// interval is the longest time from one dispatch to the next.
func interval(rps float64) time.Duration { return seconds((1 + 2*rounding) / rps) }

func budgetOf(rps float64, slots int) *Budget {
	return NewBudget(Settings{RPS: rps, MaxConcurrent: slots})
}

func TestHeadersOnlyLower(t *testing.T) {
	b := budgetOf(10, 4)
	for _, c := range []struct {
		said  Signal
		rps   float64
		slots int
	}{
		{answer("X-Aqueduct-Rps", "3", "X-Aqueduct-Max-Concurrent", "2"), 3, 2},
		{answer(), 3, 2},
		{Signal{}, 3, 2},
		{answer("X-Aqueduct-Rps", "5"), 3.15, 2}, // up is a step with each success
		{answer("X-Aqueduct-Rps", "1000", "X-Aqueduct-Max-Concurrent", "99999999999999999999"), 3.3075, 2},
		{refusal(503, "X-Aqueduct-Rps", "0"), MinRPS, 2},
		{answer("X-Aqueduct-Rps", "NaN", "X-Aqueduct-Max-Concurrent", "0"), MinRPS, 3},
		{Signal{RPS: Hint[float64]{-5, "X"}, MaxConcurrent: Hint[int]{-5, "X"}}, MinRPS, 1},
	} {
		b.Done(c.said, start)
		if !near(b.Rate(), c.rps) || b.MaxConcurrent() != c.slots {
			t.Errorf("after %+v: %v rps, %d open, want %v and %d", c.said, b.Rate(), b.MaxConcurrent(), c.rps, c.slots)
		}
	}
}

func TestLessThanTheFloorMayBeConfigured(t *testing.T) {
	b := budgetOf(0.1, 1)
	b.Done(answer("X-Aqueduct-Rps", "0"), start)
	if b.Rate() != 0.1 {
		t.Errorf("rate is %v", b.Rate())
	}
}

func TestALoweredLimitActsAtOnce(t *testing.T) {
	b := budgetOf(5000, 4)
	drive(b, start, time.Second, punctual)
	b.Done(answer("X-Aqueduct-Rps", "0.5"), at(time.Second))
	if wait, _ := b.Wait(at(time.Second)); wait > interval(0.5) {
		t.Errorf("the next dispatch is %v away", wait)
	}
	if n := len(drive(b, at(time.Second), time.Minute, punctual)); n < 29 || n > 31 {
		t.Errorf("%d dispatches in a minute at 0.5 rps", n)
	}
}

func TestAHintHoldsAndThenClimbs(t *testing.T) {
	b := budgetOf(4, 4)
	b.Done(answer("X-Aqueduct-Rps", "2", "X-Aqueduct-Max-Concurrent", "2"), at(0))
	b.Done(answer(), at(29*time.Second))
	b.Done(answer("X-Aqueduct-Rps", "2"), at(29*time.Second))
	b.Done(answer(), at(58*time.Second))
	if b.Rate() != 2 {
		t.Fatalf("rate is %v before the hint is old", b.Rate())
	}
	if b.MaxConcurrent() != 2 {
		t.Fatalf("%d open after one success", b.MaxConcurrent())
	}
	b.Done(answer(), at(59*time.Second))
	if !near(b.Rate(), 2.1) || b.MaxConcurrent() != 3 {
		t.Errorf("%v rps, %d open after another", b.Rate(), b.MaxConcurrent())
	}
	b.Done(refusal(503), at(60*time.Second))
	b.Done(Signal{}, at(60*time.Second))
	if !near(b.Rate(), 2.1) {
		t.Errorf("%v rps after a failure", b.Rate())
	}
	for range 3 {
		b.Done(answer(), at(61*time.Second))
	}
	if b.MaxConcurrent() != 4 {
		t.Errorf("%d open after three more", b.MaxConcurrent())
	}
	for range 12 {
		b.Done(answer(), at(62*time.Second))
	}
	if b.Rate() != 4 || b.Limits(at(0)).RPS.Source != SourceConfigured {
		t.Errorf("in the end: %+v", b.Limits(at(0)))
	}
}

func TestHowLongAHintHoldsMayBeSet(t *testing.T) {
	b := NewBudget(Settings{RPS: 4, MaxConcurrent: 4, HintTTL: time.Second})
	b.Done(answer("X-Aqueduct-Rps", "2"), at(0))
	b.Done(answer(), at(999*time.Millisecond))
	if b.Rate() != 2 {
		t.Errorf("%v rps before a second", b.Rate())
	}
	b.Done(answer(), at(time.Second))
	if !near(b.Rate(), 2.1) {
		t.Errorf("%v rps after it", b.Rate())
	}
}

func TestLoadLowersTheRate(t *testing.T) {
	b := budgetOf(10, 4)
	for _, c := range []struct {
		said Signal
		rps  float64
	}{
		{full("0.5"), 10},
		{full("0.75"), 2},
		{full("0.98"), MinRPS},
		{full("0.91"), 0.5},
		{full("0.2"), 0.525}, // no overload any more: it climbs at once
		{full("0.2"), 0.55125},
		{answer(orcaHeader, "TEXT kv_cache_usage_perc=0.98", "X-Aqueduct-Rps", "5"), 0.5788125}, // a header says more than a load
		{full("0.98"), MinRPS},
		{full("0.75"), 0.5788125 * 1.05 * 1.05}, // the header's 5 is climbed to meanwhile
		{answer("X-Aqueduct-Rps", "1"), 0.5788125 * 1.05 * 1.05 * 1.05},
		{full("0.75"), 0.5788125 * 1.05 * 1.05 * 1.05 * 1.05}, // a load lifts no header's limit
	} {
		b.Done(c.said, start)
		if !near(b.Rate(), c.rps) {
			t.Errorf("after %+v: %v rps, want %v", c.said, b.Rate(), c.rps)
		}
	}
}

func TestPC10_SilenceIsNoOverload(t *testing.T) {
	b := budgetOf(10, 4)
	b.Done(full("0.98"), at(0))
	now := at(29 * time.Second)
	b.Done(answer(), now)
	if l := b.Limits(now).RPS; l.Value != MinRPS || l.Stale || l.Source != orcaHeader || l.Said != 0.98 {
		t.Errorf("while the report holds: %+v", l)
	}
	now = at(DefaultHintTTL)
	b.Done(answer(), now)
	if l := b.Limits(now).RPS; !near(l.Value, MinRPS*1.05) || !l.Stale || !l.HeardAt.Equal(start) {
		t.Errorf("when it is old: %+v", l)
	}
	for range 76 {
		b.Done(answer(), now)
	}
	if l := b.Limits(now).RPS; l.Value != 10 || l.Source != SourceConfigured || l.Stale {
		t.Errorf("in the end: %+v", l)
	}
}

func TestWhatATargetSaysOfQueuesIsRemembered(t *testing.T) {
	b := budgetOf(10, 4)
	b.Done(answer("X-Aqueduct-Account-Queue", "disabled", "X-Aqueduct-Slow-Start", "true"), start)
	b.Done(answer(), at(1000*time.Hour))
	l := b.Limits(at(1000 * time.Hour))
	if l.AccountQueue != (Hint[bool]{false, "X-Aqueduct-Account-Queue"}) || !l.SlowStart {
		t.Errorf("got %+v", l)
	}
}

// One answer must not bound for ever what may wait: the bound is forgotten when it was not heard for the time of a hint.
func TestMaxBacklogIsForgotten(t *testing.T) {
	b := budgetOf(10, 4)
	b.Done(refusal(503, "X-Aquifer-Max-Backlog", "1"), start)
	b.Done(answer(), at(20*time.Second))
	b.Done(answer("X-Aquifer-Max-Backlog", "500"), at(25*time.Second))
	until, held := at(25*time.Second+DefaultHintTTL), Hint[int]{500, "X-Aquifer-Max-Backlog"}
	last := until.Add(-1)
	if h, end := b.MaxBacklog(last); h != held || !end.Equal(until) || b.Limits(last).MaxBacklog != held {
		t.Errorf("before it ends: %+v until %v", h, end)
	}
	if h, end := b.MaxBacklog(until); h.Given() || !end.IsZero() || b.Limits(until).MaxBacklog.Given() {
		t.Errorf("afterwards: %+v until %v", h, end)
	}
}

func TestConfigureKeepsWhatWasLearned(t *testing.T) {
	b := budgetOf(10, 4)
	b.Done(answer("X-Aqueduct-Rps", "3", "X-Aqueduct-Max-Concurrent", "3"), start)
	b.Configure(Settings{RPS: 20, MaxConcurrent: 8})
	if b.Rate() != 3 || b.MaxConcurrent() != 3 {
		t.Errorf("%v rps, %d open", b.Rate(), b.MaxConcurrent())
	}
	b.Configure(Settings{RPS: 2, MaxConcurrent: 1})
	if b.Rate() != 2 || b.MaxConcurrent() != 1 || b.Limits(start).RPS.Source != SourceConfigured {
		t.Errorf("%v rps, %d open, %+v", b.Rate(), b.MaxConcurrent(), b.Limits(start))
	}
}

func TestDirectAttemptsObeyWhatWasLearned(t *testing.T) {
	b := budgetOf(2, 1)
	for range 100 {
		if wait, ok := b.DirectWait(start); wait != 0 || !ok {
			t.Fatalf("settings hold back a direct attempt: %v, %v", wait, ok)
		}
		b.Take(start)
	}
	if _, ok := b.Wait(start); ok || b.InFlight() != 100 {
		t.Errorf("a dispatch may start while %d direct attempts are open", b.InFlight())
	}
	for range 98 {
		b.Done(Signal{}, start)
	}
	b.Done(answer("X-Aqueduct-Max-Concurrent", "1"), start)
	if _, ok := b.DirectWait(start); ok {
		t.Error("the learned limit of open dispatches does not count")
	}
	b.Done(answer("X-Aqueduct-Rps", "1"), start)
	if wait, ok := b.DirectWait(start); !ok || wait > interval(1) || wait < 900*time.Millisecond {
		t.Errorf("at a learned rate of 1 rps the wait is %v, %v", wait, ok)
	}
	for range 100 { // up to what is configured
		b.Done(answer("X-Aqueduct-Rps", "20", "X-Aqueduct-Max-Concurrent", "5"), at(time.Hour))
	}
	for range 4 {
		b.Take(at(time.Hour))
	}
	if wait, ok := b.DirectWait(at(time.Hour + 50*time.Millisecond)); !ok || wait != 0 || b.InFlight() != 4 {
		t.Errorf("where the target allows more than is configured: %v, %v", wait, ok)
	}
	for range 4 {
		b.Done(Signal{}, at(time.Hour))
	}
	if wait, ok := b.Wait(at(time.Hour)); !ok || wait > interval(2) {
		t.Errorf("after 100 direct attempts a dispatch waits %v, %v", wait, ok)
	}
}

func TestSlowStart(t *testing.T) {
	b := NewBudget(Settings{RPS: 10, MaxConcurrent: 4, SlowStart: true, Idle: time.Minute})
	b.Take(at(0))
	if l := b.Limits(at(0)).RPS; l.Value != SlowStartRPS || l.Source != SourceSlowStart || l.Stale {
		t.Fatalf("at its start: %+v", l)
	}
	b.Done(refusal(503), at(0))
	if b.Rate() != SlowStartRPS {
		t.Errorf("%v rps after a failure", b.Rate())
	}
	for range 61 {
		b.Done(answer(), at(0))
	}
	if b.Rate() >= 10 {
		t.Errorf("%v rps after 61 successes", b.Rate())
	}
	b.Done(answer(), at(0))
	if b.Rate() != 10 {
		t.Errorf("%v rps after 62", b.Rate())
	}
	b.Take(at(59 * time.Second))
	if b.Rate() != 10 {
		t.Errorf("%v rps after a rest that is too short", b.Rate())
	}
	b.Take(at(time.Hour))
	if b.Rate() != 10 {
		t.Errorf("%v rps after a long call", b.Rate())
	}
	b.Done(answer(), at(time.Hour))
	b.Done(answer("X-Aqueduct-Slow-Start", "false"), at(time.Hour))
	b.Take(at(2 * time.Hour))
	if b.Rate() != 10 {
		t.Errorf("%v rps though the target wants no slow start", b.Rate())
	}
	b.Done(answer("X-Aqueduct-Slow-Start", "true"), at(2*time.Hour))
	b.Take(at(2*time.Hour + time.Minute))
	if b.Rate() != SlowStartRPS {
		t.Errorf("%v rps after an idle minute", b.Rate())
	}
}

// The time between two dispatches of a slow pace is no rest, however short a rest may be.
func TestASlowStartEndsWhateverCountsAsIdle(t *testing.T) {
	b := NewBudget(Settings{RPS: 10, MaxConcurrent: 4, SlowStart: true, Idle: time.Second})
	now := start
	for range 70 {
		wait, ok := b.Wait(now)
		if !ok {
			t.Fatal("no slot is free")
		}
		now = now.Add(wait)
		b.Take(now)
		b.Done(answer(), now)
	}
	if b.Rate() != 10 {
		t.Errorf("%v rps after 70 successes", b.Rate())
	}
	b.Take(now.Add(time.Second))
	if b.Rate() != SlowStartRPS {
		t.Errorf("%v rps after an idle second", b.Rate())
	}
}

func TestSlowStartIsNoFasterThanConfigured(t *testing.T) {
	b := NewBudget(Settings{RPS: 0.3, MaxConcurrent: 4, SlowStart: true})
	b.Take(start)
	if l := b.Limits(start).RPS; l.Value != 0.3 || l.Source != SourceConfigured {
		t.Errorf("got %+v", l)
	}
}

// hints draws what a target may say.
func hints(t *rapid.T) Signal {
	values := rapid.SampledFrom([]string{"", "0", "0.5", "1", "2", "7", "50", "1e9", "NaN", "-1", "abc"})
	h := headers("X-Aqueduct-Rps", values.Draw(t, "rps"), "X-Aqueduct-Max-Concurrent", values.Draw(t, "max"),
		orcaHeader, "TEXT kv_cache_usage_perc="+rapid.SampledFrom([]string{"", "0.1", "0.8", "0.95", "0.99"}).Draw(t, "fill"))
	failed := rapid.Bool().Draw(t, "failed")
	return ReadSignal(200, failed, h, start)
}

// Whatever a target says: nothing is above what is configured, or below the floor; no more is granted
// than the rates that held allow; and when a rate is lowered, the next dispatch is one interval away.
func TestALearningBudgetKeepsItsPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := Settings{
			RPS: rapid.Float64Range(1, 1000).Draw(t, "configured"), MaxConcurrent: rapid.IntRange(1, 20).Draw(t, "slots"),
			SlowStart: rapid.Bool().Draw(t, "slow"), HintTTL: time.Second,
		}
		b, now := NewBudget(set), start
		allowed, starts := 1+set.RPS*Slack.Seconds(), 0.0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			step := time.Duration(rapid.Int64Range(0, 400e6).Draw(t, "ns"))
			now, allowed = now.Add(step), allowed+b.Rate()*step.Seconds()
			before := b.Rate()
			if rapid.Bool().Draw(t, "done") {
				b.Done(hints(t), now)
			}
			rate, slots := b.Rate(), b.MaxConcurrent()
			if rate > set.RPS || rate < MinRPS || slots > set.MaxConcurrent || slots < 1 {
				t.Fatalf("%v rps, %d open, of %+v", rate, slots, set)
			}
			if rate < before { // what was granted at the higher rate is spent
				allowed += (before - rate) * Slack.Seconds()
			}
			wait, ok := b.Wait(now)
			if ok && b.open >= slots || wait > interval(rate) {
				t.Fatalf("wait %v, %v at %v rps with %d open of %d", wait, ok, rate, b.open, slots)
			}
			if !ok || wait > 0 {
				continue
			}
			b.Take(now)
			if starts++; starts > allowed+rounding*starts+1e-9 {
				t.Fatalf("%v dispatches where %v are allowed", starts, allowed)
			}
		}
	})
}
