package main

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	second := int64(time.Second)
	call := func(seq uint32, at int64) event { return event{kind: called, seq: seq, at: at, job: 7} }
	hook := func(seq uint32, at int64) event { return event{kind: delivered, seq: seq, at: at, job: 7} }
	tests := map[string]struct {
		accept  bool
		events  []event
		crashes []int64
		want    tally
	}{
		"never sent":          {want: tally{Unsent: 1}},
		"lost":                {accept: true, events: []event{call(0, 1)}, want: tally{Accepted: 1, Lost: 1}},
		"lost without a call": {accept: true, want: tally{Accepted: 1, Lost: 1}},
		"whole":               {accept: true, events: []event{call(0, 1), hook(0, 2)}, want: tally{Accepted: 1}},
		"called twice": {
			accept: true, events: []event{call(0, 1), call(0, 2), hook(0, 3)},
			want: tally{Accepted: 1, RepeatedCalls: 1},
		},
		"told three times": {
			accept: true, events: []event{call(0, 1), hook(0, 2), hook(0, 3), hook(0, 4)},
			want: tally{Accepted: 1, DuplicateWebhooks: 2},
		},
		"twice around a crash": {
			accept: true, crashes: []int64{5 * second},
			events: []event{call(0, 4*second), call(0, 6*second), hook(0, 4*second), hook(0, 7*second)},
			want:   tally{Accepted: 1, AfterCrash: 2},
		},
		"twice long after a crash": {
			accept: true, crashes: []int64{5 * second},
			events: []event{call(0, 7*second), call(0, 8*second), hook(0, 9*second)},
			want:   tally{Accepted: 1, RepeatedCalls: 1},
		},
		"twice before a crash": {
			accept: true, crashes: []int64{5 * second},
			events: []event{call(0, 1*second), call(0, 2*second), hook(0, 3*second)},
			want:   tally{Accepted: 1, RepeatedCalls: 1},
		},
		"another id": {
			accept: true, events: []event{call(0, 1), {kind: delivered, at: 2, job: 8}},
			want: tally{Accepted: 1, Altered: 1},
		},
		"another id than acknowledged": {
			accept: true, events: []event{{kind: called, at: 1, job: 8}, {kind: delivered, at: 2, job: 8}},
			want: tally{Accepted: 1, Altered: 1},
		},
		"altered body": {
			accept: true, events: []event{{kind: called, at: 1, job: 7, flags: altered}, hook(0, 2)},
			want: tally{Accepted: 1, Altered: 1},
		},
		"failed": {
			accept: true, events: []event{call(0, 1), {kind: delivered, at: 2, job: 7, flags: jobFailed}},
			want: tally{Accepted: 1, Failed: 1},
		},
		"not of this run": {
			accept: true, events: []event{call(0, 1), hook(0, 2), hook(1, 3), call(1<<32-1, 3), {kind: 9, job: 7}},
			want: tally{Accepted: 1, Strangers: 3},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLedger(1)
			if tt.accept {
				l.accept(0, 1, 7)
			}
			done := 0
			for _, e := range tt.events {
				if l.observe(e) {
					done++
				}
			}
			tt.want.Jobs = 1
			if got := l.tally(tt.crashes); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if int64(done) != l.delivered.Load() || done > 1 {
				t.Errorf("done %d times, counted %d", done, l.delivered.Load())
			}
		})
	}
}

func TestStages(t *testing.T) {
	ms := int64(time.Millisecond)
	l := newLedger(4)
	l.entries[0] = entry{start: 10 * ms, accepted: 11 * ms, called: 13 * ms, delivered: 16 * ms}
	l.entries[1] = entry{start: 20 * ms, accepted: 21 * ms, called: 20*ms + 1, delivered: 110 * ms} // called before the answer was read
	l.entries[2] = entry{start: 30 * ms, accepted: 60 * ms}                                         // lost
	l.entries[3] = entry{start: 1 * ms, accepted: 500 * ms, called: 501 * ms, delivered: 502 * ms}  // not asked for
	s := l.stages(0, 3)
	if s.accepted != 3 || s.delivered != 2 || s.intake != 50*time.Millisecond || s.span != 100*time.Millisecond {
		t.Errorf("accepted %d in %s, delivered %d in %s", s.accepted, s.intake, s.delivered, s.span)
	}
	if got := s.throughput(); got != 20 {
		t.Errorf("throughput %g", got)
	}
	if got := s.acceptRate(); got != 60 {
		t.Errorf("accept rate %g", got)
	}
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if q := quantilesOf(s.accept); !near(q.P50, 1) || !near(q.Max, 30) {
		t.Errorf("accept %+v", q)
	}
	if q := quantilesOf(s.dispatch); q.P50 != 0 || !near(q.Max, 2) {
		t.Errorf("dispatch %+v", q)
	}
	if q := quantilesOf(s.webhook); !near(q.P50, 3) || !near(q.Max, 90) {
		t.Errorf("webhook %+v", q)
	}
	if q := quantilesOf(s.endToEnd); !near(q.P50, 6) || !near(q.Max, 90) {
		t.Errorf("end to end %+v", q)
	}
	if empty := newLedger(1).stages(0, 1); empty.throughput() != 0 || empty.acceptRate() != 0 || quantilesOf(empty.accept).Max != 0 {
		t.Errorf("stages of nothing: %+v", empty)
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v is %g, want %g", tt.values, got, tt.want)
		}
	}
	if got := spreadOf([]float64{4, -1, 3}); got != (spread{Median: 3, Min: -1, Max: 4}) {
		t.Errorf("spread %+v", got)
	}
}
