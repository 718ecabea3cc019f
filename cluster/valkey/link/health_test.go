package link

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// TestHealth plays calls of 250 ms by a clock of its own.
func TestHealth(t *testing.T) {
	const patience = 250 * time.Millisecond
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	silence := errors.New("no answer")
	for name, tt := range map[string]struct {
		began []int // when calls began that Valkey did not answer, in ms
		heard bool  // it has answered one of them since
		at    int   // when the next one comes
		want  error
	}{
		"one pause that twelve calls met": {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, false, 262, nil},
		"and those after the first":       {[]int{0, 100, 200, 249, 250, 300, 400}, false, 651, nil},
		"three one after the other":       {[]int{0, 250, 500}, false, 751, ErrDown},
		"and many beside them":            {[]int{0, 0, 0, 250, 250, 250, 500, 500, 500}, false, 751, ErrDown},
		"a while later":                   {[]int{0, 250, 500}, false, 851, nil},
		"it has answered, too late":       {[]int{0, 250, 500}, true, 751, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := health{log: slog.New(slog.DiscardHandler)}
			for _, began := range tt.began {
				h.leave(at(began), at(began).Add(patience), silence)
			}
			if tt.heard {
				h.heard()
			}
			if got := h.enter(at(tt.at)); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestHealthAsksOne: while Valkey is down one caller finds out whether it is back, and then all may ask.
func TestHealthAsksOne(t *testing.T) {
	h := health{log: slog.New(slog.DiscardHandler)}
	now := time.Now()
	for range tolerated {
		h.leave(now, now, errors.New("no answer"))
	}
	now = now.Add(probePause)
	if h.enter(now) != nil || h.enter(now) == nil {
		t.Error("not one caller may ask")
	}
	h.leave(now.Add(-2*probePause), now, errors.New("no answer")) // of a call that was under way before
	if h.enter(now.Add(time.Hour)) == nil {
		t.Error("a second caller may ask beside the first")
	}
	h.leave(now, now, nil)
	for range 2 {
		if err := h.enter(now); err != nil {
			t.Error(err)
		}
	}
}
