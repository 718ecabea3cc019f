package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// callsAt are calls at these milliseconds, of jobs 0, 1, 2...
func callsAt(ms ...int64) []arrival {
	var calls []arrival
	for seq, at := range ms {
		calls = append(calls, arrival{at: at * 1e6, seq: seq})
	}
	return calls
}

func TestMostInASecond(t *testing.T) {
	for name, tt := range map[string]struct {
		calls []arrival
		want  int
	}{
		"none":                   {nil, 0},
		"one":                    {callsAt(5), 1},
		"a second apart":         {callsAt(0, 1000, 2000), 1},
		"just less than that":    {callsAt(0, 999, 2000), 2},
		"across two seconds":     {callsAt(0, 900, 1000, 1100, 1899, 3000), 4},
		"all at the same moment": {callsAt(7, 7, 7), 3},
	} {
		if got := mostInASecond(tt.calls); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestAllowedCalls(t *testing.T) {
	for rps, want := range map[float64]float64{1: 2, 5: 6, 50: 51, 1000: 1011, 5000: 5051} {
		if got := allowed(rps); got != want {
			t.Errorf("%g/s: %g, want %g", rps, got, want)
		}
	}
}

func TestCallsOfATime(t *testing.T) {
	calls := callsAt(0, 10, 10, 20, 30)
	if got := between(calls, 10e6, 30e6); !slices.Equal(got, calls[1:4]) {
		t.Errorf("%v", got)
	}
	if got := between(calls, 31e6, 40e6); len(got) != 0 {
		t.Errorf("after the last: %v", got)
	}
	if got := ratesOf(calls, 0, 45*time.Millisecond, 20*time.Millisecond); !slices.Equal(got, []float64{150, 100}) {
		t.Errorf("rates %v", got)
	}
	if got := byTarget(calls, 3); len(got) != 3 || !slices.Equal(got[1], []arrival{calls[1], calls[4]}) {
		t.Errorf("by target: %v", got)
	}
}

func TestLate(t *testing.T) {
	for name, tt := range map[string]struct {
		calls string // o: of the one with much to do; n: of the newcomer
		want  int
	}{
		"first of all":             {"ooo nono", -1},
		"taking turns":             {"ooo onon", 0},
		"one turn late":            {"ooo oonon", 1},
		"behind all":               {"ooo oooooonn", 5},
		"served, then kept behind": {"ooo nnooon", 0},
	} {
		before, _, _ := strings.Cut(tt.calls, " ")
		order := strings.ReplaceAll(tt.calls, " ", "")
		calls := callsAt(make([]int64, len(order))...)
		if got := late(calls, len(before), func(seq int) bool { return order[seq] == 'n' }); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestHintsThatAreFollowed has targets that ask for 5/s, for 20/s, and for nothing any more.
func TestHintsThatAreFollowed(t *testing.T) {
	p := play{rps: 50, slots: 8}
	every := func(ms int64, span time.Duration) view {
		v := view{span: span}
		for at := ms; at < span.Milliseconds(); at += ms {
			v.calls = append(v.calls, arrival{at: at * 1e6})
		}
		return v
	}
	climbing := view{span: 4 * time.Second, calls: slices.Concat(callsAt(200, 1100, 1300, 1500, 1700), every(20, 4*time.Second).calls[99:])}
	rising := view{span: 3 * time.Second, calls: slices.Concat(callsAt(200, 400, 600, 800), every(50, 3*time.Second).calls[19:])}
	for _, x := range p.follows(every(200, 2*time.Second), rising, climbing) {
		if !x.OK {
			t.Errorf("%s: %g is not %s", x.Figure, x.Got, x.limit())
		}
	}
	var missed, broken int
	for _, x := range p.follows(every(20, 2*time.Second), every(20, 2*time.Second), every(20, 4*time.Second)) {
		if !x.OK {
			missed++
		}
		if !x.OK && x.Judged {
			broken++
		}
	}
	if missed != 6 || broken != 1 {
		t.Errorf("of a node that listens to nothing %d figures are off, %d of them judged", missed, broken)
	}
}

// TestPaceFindsANodeWithoutOne has the stand-in send everything at once.
func TestPaceFindsANodeWithoutOne(t *testing.T) {
	code, out, errs := bench(t, "pace", "--node="+standIn(t), "--quick", "--only=exact", "--json")
	if code != commandline.Failed || !strings.Contains(errs, "calls open") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	var rep paceReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Acts) != 1 || rep.Acts[0].MostOpen <= moderateSlots || len(rep.Acts[0].Promises) == 0 {
		t.Errorf("%+v", rep)
	}
}

func TestPaceTables(t *testing.T) {
	var out strings.Builder
	rep := paceReport{Acts: []act{{
		Scene: "some scene", Calls: 7, Sequence: []float64{50, 5},
		Promises: []promise{judged(atMost("", "calls open", 9, 8)), reported(atLeast("", "calls per second", 1, 2))},
	}}}
	if err := (&paceCmd{}).write(&out, rep); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"some scene", "MISS", "yes", "50 5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	err := kept(rep.Acts)
	if err == nil || !strings.Contains(err.Error(), "calls open is 9, must be <= 8") || strings.Contains(err.Error(), "per second") {
		t.Errorf("verdict: %v", err)
	}
}
