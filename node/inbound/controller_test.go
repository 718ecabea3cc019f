package inbound

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config                           Config
		benchmark, rate, threshold, most float64
	}{
		"defaults":         {Config{}, 400, 160, 400, 4000},
		"not positive":     {Config{BenchmarkRPS: -1, StartPercent: -40}, 400, 160, 400, 4000},
		"not a number":     {Config{BenchmarkRPS: math.NaN(), StartPercent: math.NaN()}, 400, 160, 400, 4000},
		"set":              {Config{BenchmarkRPS: 2000, StartPercent: 25}, 2000, 500, 2000, 20_000},
		"above the knee":   {Config{BenchmarkRPS: 100, StartPercent: 200}, 100, 200, 100, 1000},
		"above the most":   {Config{BenchmarkRPS: 100, StartPercent: 5000}, 100, 1000, 100, 1000},
		"below the floor":  {Config{BenchmarkRPS: 1, StartPercent: 1}, 1, 1, 1, 10},
		"all is below":     {Config{BenchmarkRPS: 0.01, StartPercent: 1}, 0.01, 1, 1, 1},
		"without a bound":  {Config{BenchmarkRPS: math.Inf(1), StartPercent: math.Inf(1)}, 1e9, 1e10, 1e9, 1e10},
		"more than can be": {Config{BenchmarkRPS: math.MaxFloat64, StartPercent: 100}, 1e9, 1e9, 1e9, 1e10},
	} {
		got := NewController(c.config, time.Time{})
		s := got.State()
		if got.benchmark != c.benchmark || s.Rate != c.rate || s.Threshold != c.threshold || got.max != c.most || s.LastAdjustment != Start {
			t.Errorf("%s: got %v %+v, at most %v", name, got.benchmark, s, got.max)
		}
	}
}

func TestP95(t *testing.T) {
	upTo := func(n int) []time.Duration {
		var all []time.Duration
		for i := n; i > 0; i-- {
			all = append(all, time.Duration(i))
		}
		return all
	}
	for _, c := range []struct {
		latencies []time.Duration
		want      time.Duration
	}{
		{nil, 0}, {upTo(19), 0}, {upTo(20), 19}, {upTo(21), 20}, {upTo(100), 95}, {upTo(8192), 7783}, {make([]time.Duration, 20), 1},
	} {
		if got := p95(c.latencies); got != c.want {
			t.Errorf("%d latencies: got %d, want %d", len(c.latencies), got, c.want)
		}
	}
}

// ticker plays readings to a controller, a second apart.
type ticker struct {
	*Controller
	now time.Time
}

func (c *ticker) play(inserts int, latency time.Duration, backlog int) State {
	c.now = c.now.Add(time.Second)
	return c.Tick(c.now, Readings{Inserts: inserts, Latencies: slices.Repeat([]time.Duration{latency}, minSamples), Backlog: backlog})
}

// Up to the threshold the rate rises quickly, from the threshold on carefully.
func TestRaise(t *testing.T) {
	for percent, want := range map[float64]float64{99: 1.5 * 396, 100: 1.05 * 400, 101: 1.05 * 404} {
		c := ticker{Controller: NewController(Config{StartPercent: percent}, time.Time{})}
		if got := c.play(400, time.Millisecond, 0).Rate; math.Abs(got-want) > 1e-9 {
			t.Errorf("from %v %% of the benchmark to %v, want %v", percent, got, want)
		}
	}
}

func TestBaselineFollowsASlowerStore(t *testing.T) {
	c := ticker{Controller: NewController(Config{}, time.Time{})}
	c.play(10, time.Millisecond, 0)
	var s State
	for range 1000 {
		s = c.play(10, 3*time.Millisecond, 0) // within 1.5 * 1 ms + 2 ms
	}
	if s.Cuts != 0 || s.Baseline < 2900*time.Microsecond || s.Baseline > 3*time.Millisecond {
		t.Errorf("got %+v", s)
	}
	if s = c.play(10, 500*time.Microsecond, 0); s.Baseline != 500*time.Microsecond {
		t.Errorf("the lowest reading is not the baseline: %v", s.Baseline)
	}
}

// A node that is congested for good goes down to the floor, and comes back from there.
func TestFloor(t *testing.T) {
	c := ticker{Controller: NewController(Config{}, time.Time{})}
	c.play(1, time.Millisecond, 0)
	s := c.State()
	for i := range 100 {
		s = c.play(1, time.Duration(i+10)*time.Second, 0)
	}
	if s.Rate != 1 || s.Threshold < 1 || s.LastAdjustment != Hold {
		t.Fatalf("got %+v", s)
	}
	if s = c.play(1, time.Millisecond, 0); s.Rate <= 1 || s.LastAdjustment != Raise {
		t.Errorf("got %+v", s)
	}
}

// A backlog that was there at the start, as after a restart, has not grown.
func TestBacklogOfTheStart(t *testing.T) {
	c := ticker{Controller: NewController(Config{}, time.Time{})}
	for i, backlog := range []int{1_000_000, 1_000_001, 1_000_002, 1_000_002, 1_000_003, 1_000_004} {
		if s := c.play(10, time.Millisecond, backlog); s.Cuts != 0 {
			t.Fatalf("cut at reading %d", i)
		}
	}
	if s := c.play(10, time.Millisecond, 1_000_005); s.LastAdjustment != CutBacklog {
		t.Errorf("got %+v", s)
	}
}

// A clock that stands still or goes back, as a suspended machine may have, gives no odd rates.
func TestOddClocks(t *testing.T) {
	now := time.Unix(100, 0)
	c := NewController(Config{}, now)
	for _, step := range []time.Duration{0, -time.Hour, time.Nanosecond, 24 * time.Hour} {
		now = now.Add(step)
		if s := c.Tick(now, Readings{Inserts: 200}); !(s.InsertsPerSec > 0) || math.IsInf(s.InsertsPerSec, 0) || s.Rate < 1 || s.Rate > 4000 {
			t.Errorf("after %v: %+v", step, s)
		}
	}
}

// What holds whatever happens.
func TestControllerKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1000), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}))
		c := NewController(Config{BenchmarkRPS: number.Draw(t, "benchmark"), StartPercent: number.Draw(t, "percent")}, time.Time{})
		now, sinceCut, last := time.Time{}, cutCooldown, c.State()
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e9, 5e9).Draw(t, "step")))
			latency := time.Duration(rapid.OneOf(rapid.Int64Range(0, 1e7), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "latency"))
			s := c.Tick(now, Readings{
				Inserts:   rapid.OneOf(rapid.IntRange(0, 5000), rapid.Just(int(last.Rate))).Draw(t, "inserts"),
				Latencies: slices.Repeat([]time.Duration{latency}, rapid.IntRange(minSamples-1, minSamples).Draw(t, "samples")),
				Backlog:   rapid.IntRange(0, 10).Draw(t, "backlog"),
			})
			sinceCut++
			if s.Cuts > last.Cuts {
				if sinceCut < cutCooldown {
					t.Fatalf("cut again after %d ticks", sinceCut)
				}
				sinceCut = 0
			}
			promised(t, c, last, s)
			last = s
		}
	})
}

// promised checks one step.
func promised(t *rapid.T, c *Controller, last, s State) {
	t.Helper()
	if !(s.Rate >= minRPS && s.Rate <= c.max && s.Threshold >= minRPS && s.Threshold <= c.max && s.Baseline >= 0 && s.P95 >= 0) {
		t.Fatalf("out of bounds: %+v", s)
	}
	cut, raised := s.LastAdjustment == CutLatency || s.LastAdjustment == CutBacklog, s.LastAdjustment == Raise
	known := []Adjustment{Raise, Hold, CutLatency, CutBacklog, HoldForCut, HoldOverRate}
	switch {
	case !slices.Contains(known, s.LastAdjustment):
		t.Fatalf("unknown adjustment %q", s.LastAdjustment)
	case cut != (s.Rate < last.Rate) || cut != (s.Cuts == last.Cuts+1):
		t.Fatalf("%q from %+v to %+v", s.LastAdjustment, last, s)
	case raised != (s.Rate > last.Rate) || raised != (s.Raises == last.Raises+1):
		t.Fatalf("%q from %+v to %+v", s.LastAdjustment, last, s)
	case s.Threshold != last.Threshold && !cut:
		t.Fatalf("the threshold moves without a cut, from %+v to %+v", last, s)
	}
}

// Callers that take what they are offered get what the store can take, or a little less.
func TestFindsWhatTheStoreTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Float64Range(50, 3000).Draw(t, "capacity")
		c := ticker{Controller: NewController(Config{}, time.Time{})}
		var served, ticks float64
		for i := range 2000 {
			rate := c.State().Rate
			latency := time.Millisecond
			if rate > capacity {
				latency = 20 * time.Millisecond
			}
			c.play(int(rate), latency, 0)
			if i >= 100 {
				served, ticks = served+min(rate, capacity), ticks+1
			}
		}
		if mean := served / ticks; mean < 0.6*capacity {
			t.Fatalf("callers get %.0f a second of %.0f", mean, capacity)
		}
	})
}

func BenchmarkTick(b *testing.B) {
	c, now := NewController(Config{}, time.Time{}), time.Time{}
	all := make([]time.Duration, maxSamples)
	shuffled := make([]time.Duration, maxSamples)
	for i := range all {
		all[i] = time.Duration(i * 7919 % maxSamples)
	}
	for b.Loop() {
		copy(shuffled, all)
		now = now.Add(time.Second)
		c.Tick(now, Readings{Inserts: maxSamples, Latencies: shuffled})
	}
}
