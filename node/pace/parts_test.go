package pace

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestOwnPart(t *testing.T) {
	for name, c := range map[string]struct {
		parts     Parts
		rps       float64
		slots     int
		wantRPS   float64
		wantSlots int
	}{
		"not divided":             {Parts{}, 30, 6, 30, 6},
		"one part":                {Parts{1, 1}, 30, 6, 30, 6},
		"fewer than one":          {Parts{-1, math.MinInt}, 30, 6, 30, 6},
		"three parts":             {Parts{3, 3}, 30, 6, 10, 2},
		"a part of a call":        {Parts{4, 4}, 1, 4, 0.25, 1},
		"slots are rounded down":  {Parts{3, 3}, 30, 5, 10, 1},
		"more parts than slots":   {Parts{3, 3}, 30, 2, 10, 1},
		"the rate alone":          {Parts{RPS: 3}, 30, 6, 10, 6},
		"the slots alone":         {Parts{MaxConcurrent: 3}, 30, 6, 30, 2},
		"hardly anything":         {Parts{3, 3}, math.SmallestNonzeroFloat64, 1, math.SmallestNonzeroFloat64, 1},
		"nothing stays unusable":  {Parts{3, 3}, 0, 0, 0, 1},
		"below nothing it is too": {Parts{3, 3}, -1, -9, -1, 1},
	} {
		s := Settings{RPS: c.rps, MaxConcurrent: c.slots, Parts: c.parts, SlowStart: true}
		want := Settings{RPS: c.wantRPS, MaxConcurrent: c.wantSlots, SlowStart: true}
		if got := s.Own(); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got := (Settings{RPS: math.NaN(), Parts: Parts{RPS: 3}}).Own().RPS; !math.IsNaN(got) {
		t.Errorf("what is no rate becomes %v", got)
	}
}

// All parts together are no more than the whole, whoever believes in however many parts as long as there are no more;
// and each is enough to get on.
func TestPartsKeepTogetherToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{RPS: rapid.Float64Range(1e-300, 1e9).Draw(t, "rps"), MaxConcurrent: rapid.IntRange(1, 65_536).Draw(t, "slots")}
		n := rapid.IntRange(1, 200).Draw(t, "nodes")
		var rps float64
		var slots int
		for range n {
			believed := n + rapid.IntRange(0, 3).Draw(t, "more")
			s.Parts = Parts{believed, believed}
			own := s.Own()
			if !(own.RPS > 0) || own.MaxConcurrent < 1 || own.RPS > s.RPS || own.MaxConcurrent > s.MaxConcurrent {
				t.Fatalf("of %+v one of %d gets %+v", s, believed, own)
			}
			rps += own.RPS
			slots += own.MaxConcurrent
		}
		if rps > s.RPS*(1+1e-9) || slots > max(s.MaxConcurrent, n) {
			t.Fatalf("%d parts of %+v are %v rps and %d slots", n, s, rps, slots)
		}
	})
}

// A budget that is divided otherwise from now on goes by that at once, and keeps what it has learned.
func TestPartsOfABudgetChange(t *testing.T) {
	s := Settings{RPS: 30, MaxConcurrent: 6}
	b := NewBudget(s)
	b.Take(start)
	b.Done(Signal{Status: 200, RPS: Hint[float64]{12, "X-Aqueduct-Rps"}}, start)
	for _, c := range []struct {
		parts int
		rps   float64
		slots int
	}{{1, 12, 6}, {2, 12, 3}, {3, 10, 2}, {6, 5, 1}, {2, 12, 3}} {
		s.Parts = Parts{c.parts, c.parts}
		b.Configure(s)
		if b.Rate() != c.rps || b.MaxConcurrent() != c.slots {
			t.Errorf("of %d parts one is %v rps and %d slots", c.parts, b.Rate(), b.MaxConcurrent())
		}
	}
	if l := b.Limits(start); l.RPS.Configured != 15 || l.RPS.Source != "X-Aqueduct-Rps" {
		t.Errorf("shown as %+v", l.RPS)
	}
}
