package pace

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffDoubles(t *testing.T) {
	for before, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := Backoff(before, time.Minute, 0); got != want*time.Second {
			t.Errorf("%d failures before: got %v, want %v", before, got, want*time.Second)
		}
	}
	if got := Backoff(0, 300*time.Millisecond, 0); got != 300*time.Millisecond {
		t.Errorf("a limit below the first wait: got %v", got)
	}
}

func TestPC01_BackoffOfAttempt5000(t *testing.T) {
	for _, before := range []int{33, 34, 35, 63, 64, 65, 5000, math.MaxInt} {
		if got := Backoff(before, time.Minute, 0); got != time.Minute {
			t.Errorf("%d failures before: got %v, want 1m", before, got)
		}
	}
	if got := Backoff(math.MinInt, time.Minute, 0); got != MinBackoff {
		t.Errorf("fewer than none before: got %v", got)
	}
	for _, draw := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 2} {
		if got := Backoff(5000, time.Minute, draw); got < time.Minute || got > 66*time.Second {
			t.Errorf("draw %v: got %v", draw, got)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.Int().Draw(t, "before")
		limit := time.Duration(rapid.Int64().Draw(t, "limit"))
		draw := rapid.Float64().Draw(t, "draw")
		got, bare := Backoff(before, limit, draw), Backoff(before, limit, 0)
		if bare < 0 || bare > max(limit, 0) || got < bare || float64(got) > float64(bare)*1.1+1 {
			t.Fatalf("got %v, without jitter %v, limit %v", got, bare, limit)
		}
		if before < math.MaxInt && Backoff(before+1, limit, 0) < bare {
			t.Fatal("a later wait is shorter")
		}
	})
}
