package drain

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMachine(t *testing.T) {
	type reading struct {
		at   int // seconds
		work work
		want State
		due  bool
	}
	busy, none, one := work{unfinished: 1}, work{}, work{ended: 1}
	for name, readings := range map[string][]reading{
		"never had work": {
			{0, none, Active, false}, {19, none, Active, false}, {20, none, Draining, false}, {49, none, Draining, false},
			{50, none, Draining, true}, {55, none, Draining, true},
		},
		"work ends it": {
			{0, busy, Active, false}, {5, one, Active, false}, {24, one, Active, false}, {25, one, Draining, false},
			{54, work{unfinished: 1, ended: 1}, Active, false}, {100, work{ended: 2}, Active, false}, {120, work{ended: 2}, Draining, false},
			{150, work{ended: 2}, Draining, true},
		},
		"work between two readings": {
			{0, none, Active, false}, {20, none, Draining, false}, {49, none, Draining, false}, {50, one, Active, false},
			{70, one, Draining, false}, {100, one, Draining, true},
		},
		"seen late": {{0, none, Active, false}, {1000, none, Draining, false}, {1030, none, Draining, true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine{quiet: 20 * time.Second, timer: 30 * time.Second, state: Active}
			for _, r := range readings {
				var due bool
				if m, due = m.observe(time.Unix(int64(r.at), 0), r.work); m.state != r.want || due != r.due {
					t.Errorf("at %d s: %s, due %v; want %s, %v", r.at, m.state, due, r.want, r.due)
				}
			}
		})
	}
}

// Whatever happens, a node is handed over only after quiet and timer without any work, and stays so until
// there is some.
func TestMachineProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.IntRange(0, 20)
		m := machine{
			quiet: time.Duration(seconds.Draw(t, "quiet")) * time.Second, timer: time.Duration(seconds.Draw(t, "timer")) * time.Second,
			state: Active,
		}
		now, worked := time.Unix(0, 0), time.Unix(0, 0)
		var w work
		for range rapid.IntRange(1, 50).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "pause")) * time.Second)
			before := w
			w.unfinished = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "unfinished")
			w.ended += rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "ended")
			some := w.unfinished > 0 || w.ended != before.ended
			if some || m.busy.IsZero() {
				worked = now
			}
			was := m.state
			var due bool
			m, due = m.observe(now, w)
			if some && (due || m.state != Active) {
				t.Fatalf("%s with work, due %v", m.state, due)
			}
			if due && now.Sub(worked) < m.quiet+m.timer {
				t.Fatalf("due after %v", now.Sub(worked))
			}
			if !some && was == Unassigned && m.state != Unassigned {
				t.Fatalf("%s without work", m.state)
			}
			if due {
				m = m.handedOver()
			}
		}
	})
}
