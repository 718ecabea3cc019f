package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestScheduleCountsWhatIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{
			start: rapid.Int64Range(0, 1<<50).Draw(t, "start"),
			rate:  rapid.Float64Range(0.01, 1e6).Draw(t, "rate"),
		}
		now := s.start + rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "since")
		n := s.due(now)
		if n > 0 && s.at(n-1) > now {
			t.Fatalf("%d due at %d, but the last comes at %d", n, now, s.at(n-1))
		}
		if s.at(n) <= now {
			t.Fatalf("%d due at %d, but another came at %d", n, now, s.at(n))
		}
	})
}

func TestClosedLoopKeepsItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tokens := newTokens(2)
		l := newClosedLoop(clock{mark: time.Now()}, tokens, 10, 14)
		drawn := make(chan int)
		go func() {
			defer close(drawn)
			for {
				seq, _, ok := l.next(ctx)
				if !ok {
					return
				}
				drawn <- seq
			}
		}()
		for _, want := range []int{10, 11} {
			if got := <-drawn; got != want {
				t.Errorf("drew %d, want %d", got, want)
			}
		}
		synctest.Wait()
		select {
		case seq := <-drawn:
			t.Errorf("job %d beyond the limit", seq)
		default:
		}
		tokens.put()
		if got := <-drawn; got != 12 {
			t.Errorf("drew %d when one had left", got)
		}
		l.refused()
		if got := <-drawn; got != 13 {
			t.Errorf("drew %d when one was refused", got)
		}
		tokens.put()
		if _, more := <-drawn; more {
			t.Error("a job beyond the last")
		}
		cancel()
	})
}

func TestClosedLoopEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	none := newTokens(1)
	<-none
	l := newClosedLoop(clock{}, none, 0, 5)
	cancel()
	if _, _, ok := l.next(ctx); ok {
		t.Error("a job after the end")
	}
	unbounded := newClosedLoop(clock{}, nil, 0, 2)
	for i := range 3 {
		if _, _, ok := unbounded.next(t.Context()); ok != (i < 2) {
			t.Errorf("job %d: %v", i, ok)
		}
	}
}

func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	defer goleak.VerifyNone(t)
	clk, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	s := schedule{start: clk.now(), rate: 2000}
	l := newOpenLoop(clk, s, 100, 120)
	ended := make(chan error)
	go func() { ended <- l.run(t.Context()) }()
	for i := range 20 {
		seq, start, ok := l.next(t.Context())
		if seq != 100+i || start != s.at(i) || !ok {
			t.Errorf("arrival %d: job %d at %d, %v", i, seq, start-s.start, ok)
		}
		if now := clk.now(); now < start {
			t.Errorf("job %d arrived %d ns early", seq, start-now)
		}
	}
	if _, _, ok := l.next(t.Context()); ok {
		t.Error("an arrival beyond the last")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOpenLoopEndsWhileItWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	clk, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l := newOpenLoop(clk, schedule{start: clk.now(), rate: 0.001}, 0, 2)
	ended := make(chan error)
	go func() { ended <- l.run(ctx) }()
	if _, _, ok := l.next(ctx); !ok {
		t.Error("the first job did not arrive")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
