package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const n = 60
	figure := func(f func(i int) float64) ([]time.Duration, []float64) {
		var at []time.Duration
		var v []float64
		for i := range n {
			at, v = append(at, time.Duration(i)*time.Second), append(v, f(i))
		}
		return at, v
	}
	tests := map[string]struct {
		f    func(i int) float64
		flat bool
	}{
		"grows by a half":      {func(i int) float64 { return 100 + 50*float64(i)/n }, false},
		"grows and saws":       {func(i int) float64 { return 100 + 50*float64(i)/n + 20*float64(i%5) }, false},
		"grows from nothing":   {func(i int) float64 { return float64(i) }, false},
		"still":                {func(int) float64 { return 100 }, true},
		"saws":                 {func(i int) float64 { return 100 + 40*float64(i%7) }, true},
		"falls":                {func(i int) float64 { return 200 - float64(i) }, true},
		"one peak":             {func(i int) float64 { return map[bool]float64{true: 1000, false: 100}[i == 40] }, true},
		"within the tolerance": {func(i int) float64 { return 100 + 8*float64(i)/n }, true},
		"zero":                 {func(int) float64 { return 0 }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at, v := figure(tt.f)
			if got := judge("x", at, v, tolerance{relative: 0.1, absolute: 2}); got.Flat != tt.flat {
				t.Errorf("%+v", got)
			}
		})
	}
	at, v := figure(func(int) float64 { return 1 })
	if got := judge("x", at[:minSamples-1], v[:minSamples-1], tolerance{absolute: 1}); got.Flat {
		t.Error("flat by too few samples")
	}
	if got := judge("x", nil, nil, tolerance{}); got.Flat || math.IsNaN(got.Growth) {
		t.Errorf("trend of nothing: %+v", got)
	}
}

func TestTrendsLeaveOutTheStart(t *testing.T) {
	var samples []sample
	for i := range 40 {
		samples = append(samples, sample{At: time.Duration(i) * time.Second, RSS: int64(min(i, 20)) * 10e6, Goroutines: 5, Files: 9, Database: 1e6})
	}
	for _, tr := range trends(samples, 20*time.Second) {
		if !tr.Flat || tr.Samples != 20 {
			t.Errorf("%+v", tr)
		}
	}
	grown := trends(samples, 0)
	if grown[0].Flat || flatness(grown) == nil {
		t.Errorf("%+v", grown[0])
	}
	if err := flatness(trends(samples, 38*time.Second)); err == nil {
		t.Error("judged by two samples")
	}
}

func TestSoakPlan(t *testing.T) {
	c := &soakCmd{Duration: 10 * time.Minute, Restarts: 4, Retention: 30 * time.Second}
	var got []string
	for _, m := range c.moments() {
		got = append(got, m.String())
	}
	if s := strings.Join(got, " "); s != "1m15s 2m30s 3m45s 5m0s" {
		t.Errorf("restarts at %s", s)
	}
	if got := c.judgedFrom(); got != 6*time.Minute+30*time.Second {
		t.Errorf("judged from %s", got)
	}
	c.Duration = 40 * time.Second
	if got := c.judgedFrom(); got != 30*time.Second {
		t.Errorf("a short run is judged from %s", got)
	}
}

func TestSummarize(t *testing.T) {
	round := func(name string, n int, rate, cpu float64) result {
		s := newStages()
		record(s.accept, int64(rate))
		return result{Contender: name, Round: n, JobsPerSecond: rate, CPUSeconds: cpu, Tally: tally{Jobs: 1, Accepted: 1}, stages: s}
	}
	list := summarize([]result{
		round("node", 1, 90, 0.1), round(relayName, 1, 100, 0.2),
		round("node", 2, 50, 0.3), round(relayName, 2, 100, 0.2), // the slow round of both is one round
		round("node", 3, 40, 0.2), round(relayName, 3, 50, 0.2),
	})
	if len(list) != 2 || list[0].Contender != "node" {
		t.Fatalf("%+v", list)
	}
	n := list[0]
	if n.JobsPerSecond != (spread{Median: 50, Min: 40, Max: 90}) || n.Ratio != (spread{Median: 0.8, Min: 0.5, Max: 0.9}) || n.CPUSeconds.Median != 0.2 {
		t.Errorf("%+v", n)
	}
	if n.Tally != (tally{Jobs: 3, Accepted: 3}) {
		t.Errorf("%+v", n.Tally)
	}
	if err := verdicts(list); err != nil {
		t.Error(err)
	}
	list[1].Tally.Lost = 1
	if err := verdicts(list); err == nil || !strings.Contains(err.Error(), "relay lost 1 jobs") {
		t.Errorf("verdict %v", err)
	}
}

func TestChecks(t *testing.T) {
	good := summary{Ratio: spread{Median: 0.85}, CPUSeconds: spread{Median: 0.12}, PeakRSS: spread{Median: 110e6}, JobsPerSecond: spread{Median: 100}}
	good.Contender = nodeDefault
	bad := summary{Contender: nodeSync, Ratio: spread{Median: 0.74}, CPUSeconds: spread{Median: 0.14}, PeakRSS: spread{Median: 111e6}, JobsPerSecond: spread{Median: 100}}
	bad.Tally = tally{Lost: 1, Refused: 1, DuplicateWebhooks: 1, RepeatedCalls: 1}
	fast := summary{Contender: nodeDefault, AcceptP50: spread{Median: 0.4}, AcceptP99: spread{Median: 2}}
	slow := summary{Contender: nodeSync, AcceptP50: spread{Median: 0.9}, AcceptP99: spread{Median: 3.1}}
	rep := gateReport{
		Closed: []summary{
			good, bad, {Contender: relayName, CPUSeconds: spread{Median: 0.101}},
			{Contender: longName(nodeDefault, longJobs), JobsPerSecond: spread{Median: 95}},
			{Contender: longName(nodeSync, longJobs), JobsPerSecond: spread{Median: 94}},
		},
		Open: []summary{fast, slow, {Contender: relayName, AcceptP50: spread{Median: 0.2}, AcceptP99: spread{Median: 0.7}}},
	}
	list := checks(rep)
	if len(list) != 26 {
		t.Fatalf("%d checks", len(list))
	}
	for _, c := range list {
		if c.OK != (c.Mode == nodeDefault) {
			t.Errorf("%+v", c)
		}
	}
	for _, c := range checks(gateReport{}) {
		if c.Limit != 0 {
			t.Errorf("a check of what was not measured: %+v", c)
		}
	}
}

func TestWriteSummaries(t *testing.T) {
	var out bytes.Buffer
	s := summary{Contender: "node", JobsPerSecond: spread{Median: 11870.4, Min: 11000, Max: 12000}, PeakRSS: spread{Median: 99e6}}
	s.Accept.P50 = 1.234
	s.Tally.Lost = 3
	if err := writeSummaries(&out, []summary{s}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"11870", "11000-12000", "99", "1.23", "lost"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestProc(t *testing.T) {
	cpu, err := parseCPU([]byte("12 (a b) (c)) S 1 1 1 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 1 0 1 1 1"))
	if err != nil || cpu != 2*time.Second {
		t.Errorf("%s, %v", cpu, err)
	}
	for _, bad := range []string{"", "12 (x) S 1", "12 (x) S 1 1 1 0 -1 4194304 1 0 0 0 x 50 0", "12 (x) S 1 1 1 0 -1 4194304 1 0 0 0 1 y 0"} {
		if _, err := parseCPU([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	status := []byte("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\nVmBad:\t x kB\n")
	if n, err := parseKB(status, "VmHWM"); err != nil || n != 2<<20 {
		t.Errorf("%d, %v", n, err)
	}
	for _, name := range []string{"VmNone", "VmBad"} {
		if _, err := parseKB(status, name); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
	if got, err := parseWaited([]byte("5 1500000000 7\n")); err != nil || got != 1500*time.Millisecond {
		t.Errorf("waited %s, %v", got, err)
	}
	for _, bad := range []string{"", "5 6", "5 x 7"} {
		if _, err := parseWaited([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestSizeOf(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"a": 10, "b": 20} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := sizeOf(dir); err != nil || n != 30 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := sizeOf(filepath.Join(dir, "none")); err != nil || n != 0 {
		t.Errorf("of nothing: %d, %v", n, err)
	}
}

func TestGauge(t *testing.T) {
	const text = "# HELP go_goroutines x\n# TYPE go_goroutines gauge\ngo_goroutines 17\ngo_goroutines_max 99\nbad x\n"
	if n, ok := gauge(text, "go_goroutines"); !ok || n != 17 {
		t.Errorf("%g, %v", n, ok)
	}
	for _, name := range []string{"bad", "none"} {
		if _, ok := gauge(text, name); ok {
			t.Errorf("a value for %s", name)
		}
	}
}

func TestNodeEnvironment(t *testing.T) {
	path := standIn(t)
	o := nodeOptions{Node: path, Env: map[string]string{"AQUIFER_SHUTDOWN_QUIESCE_MS": "9", "GOGC": "50"}}
	dir := t.TempDir()
	n, err := o.newNode(dir, nodeSetup{durability: durabilitySync, targets: rates("127.0.0.1:9")})
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Join(n.env, "\n")
	for _, want := range []string{
		"AQUIFER_PEBBLE_FLUSH_INTERVAL_MS=0", "AQUIFER_SHUTDOWN_QUIESCE_MS=9", "GOGC=50", "AQUIFER_LISTEN=" + n.addr,
		"DB_PATH=" + filepath.Join(dir, "db"), "CONFIG_PATH=" + filepath.Join(dir, "config.yaml"),
	} {
		if !strings.Contains(env, want) {
			t.Errorf("no %s in\n%s", want, env)
		}
	}
	if usual, err := o.newNode(t.TempDir(), nodeSetup{durability: durabilityDefault}); err != nil || strings.Contains(strings.Join(usual.env, "\n"), "FLUSH") {
		t.Errorf("default durability: %v, %v", usual.env, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "defaults:\n  rps: 1000000000\n  max_concurrent: 4096\nupstreams:\n  \"127.0.0.1:9\":\n    rps: 0.5\n    max_concurrent: 1\n"; string(raw) != want {
		t.Errorf("configuration\n%s", raw)
	}
}
