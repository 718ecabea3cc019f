package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSceneFrame(t *testing.T) {
	s := scene{
		server: "http://127.0.0.1:4711", rps: 5, elapsed: 2900 * time.Millisecond,
		accepting: 11400 * time.Microsecond,
		releases:  []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond},
		tenants: []tally{
			{name: "alice", burst: 6, accepted: 6, released: 2, delivered: 1},
			{name: "bob", burst: 3, accepted: 1, released: 0},
			{name: "carol", burst: 1, accepted: 1, released: 1, delivered: 1},
		},
	}
	want := strings.Join([]string{
		"A target takes 5 requests a second. 3 tenants send it 10 jobs at once.",
		"",
		"  accepted     8 of 10  in 11 ms, each kept before it was answered",
		"  released     3 of 10  5.0 a second, the tenants in turn",
		"  delivered    2 of 10  to the webhook receiver",
		"",
		"  alice   █▓░░░░  2 of 6",
		"  bob     ░··     0 of 3",
		"  carol   █       1 of 1",
		"          █ delivered  ▓ released  ░ accepted, waits its turn  · not accepted yet",
		"",
		"    2.9 s  the node is at http://127.0.0.1:4711 until the end",
	}, "\n")
	if got := strings.Join(s.frame(), "\n"); got != want {
		t.Errorf("frame:\n%s\nwant:\n%s", got, want)
	}
	line := "  2.9s  accepted 8/10  released 3/10 (alice 2/6, bob 0/3, carol 1/1)  delivered 2/10"
	if got := s.line(); got != line {
		t.Errorf("line: %q, want %q", got, line)
	}
}

func TestSceneBeforeAnythingHappened(t *testing.T) {
	s := scene{rps: 5, tenants: []tally{{name: "alice", burst: 2}}}
	frame := strings.Join(s.frame(), "\n")
	for _, claim := range []string{" ms", "in turn", "NaN", "Inf"} {
		if strings.Contains(frame, claim) {
			t.Errorf("the frame claims %q before there is anything to measure:\n%s", claim, frame)
		}
	}
	if s.done() {
		t.Error("done before anything was delivered")
	}
}

func TestSceneIsDoneWhenAllIsDelivered(t *testing.T) {
	s := scene{tenants: []tally{{burst: 2, accepted: 2, released: 2, delivered: 2}, {burst: 1, accepted: 1, released: 1}}}
	if s.done() {
		t.Error("done while a result is owed")
	}
	s.tenants[1].delivered = 1
	if !s.done() {
		t.Error("not done although every result is delivered")
	}
}

// A row has one cell for each job, whatever the order in which the counts arrive and even if a call
// is repeated.
func TestBarHasOneCellForEachJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string) int { return rapid.IntRange(0, 12).Draw(t, name) }
		x := tally{burst: count("burst"), accepted: count("accepted"), released: count("released"), delivered: count("delivered")}
		width := rapid.IntRange(0, 40).Draw(t, "width")
		want := max(x.burst, x.accepted, x.released, x.delivered, width)
		if got := utf8.RuneCountInString(x.bar(width)); got != want {
			t.Fatalf("%+v: %d cells, want %d: %q", x, got, want, x.bar(width))
		}
		if got := strings.Count(x.bar(width), "█"); got != x.delivered {
			t.Fatalf("%+v: %d delivered cells", x, got)
		}
	})
}

func TestRate(t *testing.T) {
	ms := func(list ...int) []time.Duration {
		releases := make([]time.Duration, len(list))
		for i, n := range list {
			releases[i] = time.Duration(n) * time.Millisecond
		}
		return releases
	}
	tests := []struct {
		releases []time.Duration
		want     float64
	}{
		{nil, 0},
		{ms(100), 0},
		{ms(100, 100), 0}, // a clock that stands still tells no rate
		{ms(100, 300), 5},
		{ms(0, 500, 600, 1000), 3},
	}
	for _, tt := range tests {
		if got := (scene{releases: tt.releases}).rate(); got != tt.want {
			t.Errorf("%v: rate %v, want %v", tt.releases, got, tt.want)
		}
	}
}
