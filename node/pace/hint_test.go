package pace

import (
	"fmt"
	"math"
	"testing"
)

func TestPC02_RateOfAHeader(t *testing.T) {
	for value, want := range map[string]float64{
		"0": 0, "0.0": 0, "0.5": 0.5, "7": 7, " 7 ": 7, "7.25": 7.25, "1e2": 100, "2.5E-1": 0.25, "1e308": 1e308,
		"8, 3": 3, "abc, 3": 3,
	} {
		got := ReadSignal(200, false, headers("X-Aqueduct-Rps", value), start).RPS
		if got != (Hint[float64]{want, "X-Aqueduct-Rps"}) {
			t.Errorf("%q: got %+v, want %v", value, got, want)
		}
	}
	for _, value := range []string{
		"", "-1", "-0", "+3", "NaN", "nan", "Inf", "Infinity", "-Inf", "1e309", "abc", "0x5", "0x1p4", "1_000", "1e", "1.2.3",
		".5", "5 rps", "five", "٥", "1;2", "true",
	} {
		if got := ReadSignal(200, false, headers("X-Aqueduct-Rps", value), start).RPS; got.Given() {
			t.Errorf("%q: got %+v", value, got)
		}
	}
}

func TestPC02_TwoNamesAndTwoValues(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want Hint[float64]
	}{
		{[]string{"X-Aquifer-Rps", "3"}, Hint[float64]{3, "X-Aquifer-Rps"}},
		{[]string{"X-Aqueduct-Rps", "8", "X-Aquifer-Rps", "3"}, Hint[float64]{8, "X-Aqueduct-Rps"}},
		{[]string{"X-Aqueduct-Rps", "abc", "X-Aquifer-Rps", "3"}, Hint[float64]{3, "X-Aquifer-Rps"}},
		{[]string{"X-Aqueduct-Rps", "", "X-Aquifer-Rps", "3"}, Hint[float64]{3, "X-Aquifer-Rps"}},
		{[]string{"X-Aqueduct-Rps", "8", "X-Aqueduct-Rps", "3"}, Hint[float64]{3, "X-Aqueduct-Rps"}},
		{[]string{"X-Aqueduct-Rps", "3", "X-Aqueduct-Rps", "8"}, Hint[float64]{3, "X-Aqueduct-Rps"}},
		{[]string{"X-Aqueduct-Rps", "NaN", "X-Aqueduct-Rps", "8"}, Hint[float64]{8, "X-Aqueduct-Rps"}},
		{[]string{"X-Aqueduct-Rps", "0", "X-Aquifer-Rps", "3"}, Hint[float64]{0, "X-Aqueduct-Rps"}},
		{[]string{"X-Canalis-Rps", "3", "Rps", "3"}, Hint[float64]{}},
	} {
		if got := ReadSignal(200, false, headers(c.in...), start).RPS; got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.in, got, c.want)
		}
	}
}

func TestMaxConcurrentOfAHeader(t *testing.T) {
	for value, want := range map[string]int{
		"1": 1, " 12 ": 12, "99999999999999999999": math.MaxInt, "5, 3": 3, "0, 3": 3,
		"0": 0, "-1": 0, "+2": 0, "1.5": 0, "1e3": 0, "0x5": 0, "abc": 0, "": 0, "NaN": 0,
	} {
		got := ReadSignal(200, false, headers("X-Aquifer-Max-Concurrent", value), start).MaxConcurrent
		if got.Value != want || got.Given() != (want > 0) || got.Given() && got.Header != "X-Aquifer-Max-Concurrent" {
			t.Errorf("%q: got %+v, want %d", value, got, want)
		}
	}
}

func TestMaxBacklogOfAHeader(t *testing.T) {
	for value, want := range map[string]int{
		"0": 0, "250": 250, "500, 250": 250, "0, 250": 250, "-1": -1, "1.5": -1, "abc": -1, "": -1,
	} {
		got := ReadSignal(200, false, headers("X-Aqueduct-Max-Backlog", value), start).MaxBacklog
		if got.Given() != (want >= 0) || got.Given() && got.Value != want {
			t.Errorf("%q: got %+v, want %d", value, got, want)
		}
	}
}

func TestWordsOfAHeader(t *testing.T) {
	const yes, no, nothing = "true", "false", "nothing"
	for _, c := range []struct{ value, queue, slow string }{
		{"true", yes, yes},
		{"false", no, no},
		{"enabled", yes, nothing},
		{"disabled", no, nothing},
		{" enabled ", yes, nothing},
		{"true, false", yes, yes},
		{"false, true", yes, yes},
		{"True", nothing, nothing},
		{"on", nothing, nothing},
		{"1", nothing, nothing},
		{"", nothing, nothing},
	} {
		s := ReadSignal(200, false, headers("X-Aqueduct-Account-Queue", c.value, "X-Aqueduct-Slow-Start", c.value), start)
		word := func(h Hint[bool]) string {
			if !h.Given() {
				return nothing
			}
			return fmt.Sprint(h.Value)
		}
		if word(s.AccountQueue) != c.queue || word(s.SlowStart) != c.slow {
			t.Errorf("%q: Account-Queue is %s, Slow-Start %s", c.value, word(s.AccountQueue), word(s.SlowStart))
		}
	}
}

func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"0", "1.5", "1e309", "0x5", "NaN", "-1", "1e-400", "1_0", "9e999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := decimal(s)
		if !ok && n != n || ok && !(n >= 0 && n <= math.MaxFloat64) {
			t.Errorf("%q: got %v, %v", s, n, ok)
		}
	})
}

// Whatever a target says, what is read of it is usable, and a budget that hears it goes on.
func FuzzReadSignal(f *testing.F) {
	f.Add("3", "5", "TEXT kv_cache_usage_perc=0.9", "12")
	f.Add("NaN", "-1", `JSON {"named_metrics":{"kv_cache_utilization":1e309}}`, "Sun, 11 Oct 2026 12:00:00 GMT")
	f.Add("1e309, 0", "99999999999999999999", "JSON null", "9223372036854775807")
	f.Fuzz(func(t *testing.T, rps, slots, load, after string) {
		h := headers("X-Aqueduct-Rps", rps, "X-Aquifer-Max-Concurrent", slots, orcaHeader, load, "Retry-After", after,
			"X-Aqueduct-Max-Backlog", slots)
		s := ReadSignal(429, true, h, start)
		if s.RetryAfter.Wait < 0 || s.MaxConcurrent.Given() && s.MaxConcurrent.Value < 1 || s.MaxBacklog.Value < 0 {
			t.Errorf("got %+v", s)
		}
		b := NewBudget(Settings{RPS: 10, MaxConcurrent: 4})
		b.Take(start)
		b.Done(s, start)
		if r := b.Rate(); !(r >= MinRPS && r <= 10) || b.MaxConcurrent() < 1 || b.MaxConcurrent() > 4 {
			t.Errorf("%v rps, %d open after %+v", r, b.MaxConcurrent(), s)
		}
		if wait, ok := b.Wait(start); !ok || wait < 0 || wait > 8*1e9 {
			t.Errorf("wait %v, %v after %+v", wait, ok, s)
		}
	})
}
