package main

import (
	"crypto/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// at is a moment of the tests, in s.
func at(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }

// made is the id of a job that n1 has made.
func made(second float64) string {
	id, err := job.IDs{Tag: job.TagOf("n1"), Rand: rand.Reader}.New(at(second))
	if err != nil {
		return err.Error()
	}
	return id.String()
}

// tale is what happened to one job, sent at second 0.
type tale struct {
	acked float64 // by n1, which has made it then; negative: never
	calls []call
	hooks []hook
}

func ran(node place, second float64) call {
	return call{At: at(second), Node: node, Job: "j", Executed: true}
}

func told(node place, second float64, status string) hook {
	return hook{At: at(second), Node: node, Delivery: "webhook:j", Job: "j", Status: status}
}

func (d tale) judge(disturbed ...disturbance) account {
	l := newLedger()
	l.send("k", "ada", at(0), at(0))
	if d.acked >= 0 {
		l.ack("k", made(d.acked), "n1", at(d.acked))
	}
	l.entries["k"].Calls, l.entries["k"].Hooks = d.calls, d.hooks
	return l.judge(disturbed)
}

func TestVerdict(t *testing.T) {
	done := []hook{told("n1", 2, "completed")}
	crash := disturbance{What: "kill -9", Place: "n1", From: at(2), Until: at(10)}
	lostVolume := disturbance{What: "volume lost", Place: "n1", From: at(2), Until: at(10), Volume: true}
	elsewhere := disturbance{What: "kill -9", Place: "n3", From: at(2), Until: at(10), Volume: true}
	twice := []call{ran("n1", 1), ran("n2", 3)}
	second := ran("n2", 3)
	second.Job = "k"
	for _, c := range []struct {
		name      string
		tale      tale
		disturbed []disturbance
		want      account // what is counted beside Sent and the latencies
		faults    string  // of which the only fault is made
	}{
		{"done", tale{acked: 1, calls: []call{ran("n1", 1)}, hooks: done}, nil, account{Accepted: 1, Completed: 1}, ""},
		{"lost", tale{acked: 1}, nil, account{Accepted: 1, Lost: 1}, "lost: k of ada"},
		{"run but not told", tale{acked: 1, calls: []call{ran("n1", 1)}}, nil, account{Accepted: 1, Lost: 1}, "called 1 times"},
		{"lost with its volume", tale{acked: 1}, []disturbance{lostVolume}, account{Accepted: 1, LostWithVolume: 1}, ""},
		{"accepted after the volume was lost", tale{acked: 5}, []disturbance{lostVolume}, account{Accepted: 1, Lost: 1}, "lost:"},
		{"another node's volume was lost", tale{acked: 1}, []disturbance{elsewhere}, account{Accepted: 1, Lost: 1}, "lost:"},
		{"a kill loses nothing", tale{acked: 1}, []disturbance{crash}, account{Accepted: 1, Lost: 1}, "lost:"},
		{"failed", tale{acked: 1, hooks: []hook{told("n1", 2, "failed")}}, nil, account{Accepted: 1, Failed: 1}, "without being done"},
		{"never acknowledged", tale{acked: -1}, nil, account{Unacknowledged: 1}, "never acknowledged"},
		{
			"twice", tale{acked: 1, calls: twice, hooks: done}, nil,
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{unexplained: 1}}, "executed twice: k of ada",
		},
		{
			"twice because of a kill", tale{acked: 1, calls: twice, hooks: done}, []disturbance{crash},
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{"kill -9": 1}}, "",
		},
		{
			"twice, long before the kill", tale{acked: 1, calls: twice, hooks: done}, []disturbance{{What: "kill -9", Place: "n1", From: at(2.5)}},
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{unexplained: 1}}, "executed twice",
		},
		{
			"twice, as the second node was killed", tale{acked: 1, calls: twice, hooks: done}, []disturbance{{What: "kill -9", Place: "n2", From: at(2)}},
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{unexplained: 1}}, "executed twice",
		},
		{
			"twice as two jobs, as the second node was killed", tale{acked: 1, calls: []call{ran("n1", 1), second}, hooks: done},
			[]disturbance{{What: "kill -9", Place: "n2", From: at(2)}},
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{"kill -9": 1}}, "",
		},
		{
			"twice, and another node was killed", tale{acked: 1, calls: twice, hooks: done}, []disturbance{elsewhere},
			account{Accepted: 1, Completed: 1, ExecutedTwice: 1, TwiceBecause: map[string]int{unexplained: 1}}, "executed twice",
		},
		{
			"told twice", tale{acked: 1, hooks: append(done, told("n1", 3, "completed"))}, nil,
			account{Accepted: 1, Completed: 1, HooksTwice: 1, HooksBecause: map[string]int{unexplained: 1}}, "came again",
		},
		{
			"told twice because of a kill", tale{acked: 1, hooks: append(done, told("n1", 11, "completed"))}, []disturbance{crash},
			account{Accepted: 1, Completed: 1, HooksTwice: 1, HooksBecause: map[string]int{"kill -9": 1}}, "",
		},
		{
			"a call that the target was too busy for", tale{acked: 1, calls: []call{{At: at(1), Node: "n1"}, ran("n1", 3)}, hooks: done}, nil,
			account{Accepted: 1, Completed: 1}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.tale.judge(c.disturbed...)
			// A single job is no good run unless it was accepted; that fault has its own test.
			faults := strings.TrimSuffix(strings.Join(got.faults, "\n"), "\nno job was accepted")
			if (c.faults == "") != (faults == "") || !strings.Contains(faults, c.faults) {
				t.Errorf("faults %q", faults)
			}
			if counted := onlyCounts(got); !reflect.DeepEqual(counted, onlyCounts(c.want)) {
				t.Errorf("counted %+v", counted)
			}
		})
	}
}

// onlyCounts leaves out what all tales have in common.
func onlyCounts(a account) account {
	a.Sent, a.AckP50, a.AckP99, a.Unavailable, a.Late, a.waits, a.faults, a.FailedBy = 0, 0, 0, 0, 0, nil, nil, nil
	if len(a.TwiceBecause) == 0 {
		a.TwiceBecause = nil
	}
	if len(a.HooksBecause) == 0 {
		a.HooksBecause = nil
	}
	return a
}

func TestDisturbanceReachesNoFurtherThanItsTime(t *testing.T) {
	d := disturbance{Place: "n1", From: at(10), Until: at(20)}
	for _, c := range []struct {
		from, to float64
		want     bool
	}{
		{0, 5, false}, {0, 11, true}, {12, 15, true}, {30, 31, true}, {36, 40, false},
	} {
		if got := d.explains(at(c.from), at(c.to), "n1", "n2"); got != c.want {
			t.Errorf("from second %v to %v: %v", c.from, c.to, got)
		}
	}
	if d.explains(at(12), at(15), "n2", "n3") {
		t.Error("explains what other nodes did")
	}
	if open := (disturbance{Place: "n1", From: at(10)}); !open.explains(at(1000), at(1001), "n1") {
		t.Error("a disturbance without an end has ended")
	}
}

func TestAccountOfNothingIsAFault(t *testing.T) {
	if a := newLedger().judge(nil); len(a.faults) != 1 || !strings.Contains(a.faults[0], "no job") {
		t.Errorf("faults %q", a.faults)
	}
}

func TestQuantile(t *testing.T) {
	list := []float64{1, 2, 3, 4}
	for part, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(list, part); got != want {
			t.Errorf("%v: %v", part, got)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("something of nothing")
	}
}

func TestConclude(t *testing.T) {
	calm := scenario{calm: true, patience: time.Second}
	for _, c := range []struct {
		name     string
		scenario scenario
		o        outcome
		noticed  time.Duration
		err      error
		want     string // empty: passes
	}{
		{"good", calm, outcome{}, 0, nil, ""},
		{"a failed call where none may be", calm, outcome{account: account{FailedCalls: 1}}, 0, nil, "1 calls of clients failed"},
		{"a failed call where some may be", scenario{patience: time.Second}, outcome{account: account{FailedCalls: 1}}, 0, nil, ""},
		{"too long", calm, outcome{account: account{Unavailable: 1001}}, 0, nil, "insist for 1001 ms"},
		{"noticed late", calm, outcome{Provider: "gossip"}, 6 * time.Second, nil, "seen for 6000 ms"},
		{"noticed in time by heartbeats", calm, outcome{Provider: "valkey"}, 6 * time.Second, nil, ""},
		{"on a machine that is too busy", calm, outcome{account: account{FailedCalls: 1, Late: 1001}}, 0, nil, "1001 ms late itself"},
		{"late and yet good", calm, outcome{account: account{Late: 1001}}, 0, nil, ""},
		{"not played", calm, outcome{}, 0, errNotAll, errNotAll.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := conclude(c.scenario, c.o, c.noticed, c.err)
			if o.Passed != (c.want == "") || !strings.Contains(strings.Join(o.Faults, "\n"), c.want) {
				t.Errorf("passed %v, faults %q", o.Passed, o.Faults)
			}
		})
	}
}

func TestLonger(t *testing.T) {
	waits := []wait{
		{"job-0", "n1", 0, 999}, {"job-1", "n2", 1500 * time.Millisecond, 1001}, {"job-2", "n1", 2 * time.Second, 3}, {"job-3", "n2", 3 * time.Second, 2000},
	}
	if got, want := longer(waits, 1000), "; longer than that: 2, from job-1 at 1.5 s to job-3 at 3.0 s, by owner map[n2:2]"; got != want {
		t.Errorf("%q", got)
	}
	if got := longer(waits, 2000); got != "" {
		t.Errorf("%q", got)
	}
}
