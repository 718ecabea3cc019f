package pace

import (
	"testing"
	"time"
)

func TestReadSignal(t *testing.T) {
	s := ReadSignal(503, true, headers("Retry-After", "9"), start)
	if s.Status != 503 || !s.Failed || s.NoRetry || s.RetryAfter.Wait != 9*time.Second || !s.RetryAfter.OK {
		t.Errorf("got %+v", s)
	}
	if s := ReadSignal(0, true, nil, start); s != (Signal{Failed: true}) {
		t.Errorf("no answer: got %+v", s)
	}
}

func TestRetryAfterIsReadWhereItMatters(t *testing.T) {
	h := headers("RateLimit-Reset", "30")
	if s := ReadSignal(429, true, h, start); s.RetryAfter.Wait != 30*time.Second {
		t.Errorf("429: got %+v", s)
	}
	if s := ReadSignal(502, true, h, start); s.RetryAfter.OK {
		t.Errorf("502: the reset of a rate limit delays a retry: %+v", s)
	}
	h.Set("Retry-After", "5")
	if s := ReadSignal(200, false, h, start); s.RetryAfter != (RetryAfter{}) {
		t.Errorf("200: got %+v", s)
	}
}

func TestNoRetry(t *testing.T) {
	for _, c := range []struct {
		aqueduct, aquifer string
		want              bool
	}{
		{"true", "", true}, {"", "true", true}, {" true ", "", true}, {"true", "false", true},
		{"false", "true", false}, {"", "", false}, {"1", "", false}, {"yes", "", false},
	} {
		s := ReadSignal(500, true, headers("X-Aqueduct-No-Retry", c.aqueduct, "X-Aquifer-No-Retry", c.aquifer), start)
		if s.NoRetry != c.want {
			t.Errorf("%q, %q: got %v", c.aqueduct, c.aquifer, s.NoRetry)
		}
	}
}
