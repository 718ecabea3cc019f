package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cmd/commandline"
)

// TestMain lets the test program stand in for aquifer-bench when the harness starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "sinks" || os.Args[1] == "relay") {
		os.Exit(program().Main())
	}
	os.Exit(m.Run())
}

// bench runs a command whose files go to a directory that must be empty in the end.
func bench(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	var o, e bytes.Buffer
	code = program().Execute(t.Context(), append(args, "--dir="+dir), commandline.Streams{Out: &o, Err: &e})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	return code, o.String(), e.String()
}

// standIn is a node for the tests: the relay, started and asked as a node is. It forgets all jobs
// when it ends, so the harness has something to find.
func standIn(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\nexec " + self + ` relay --listen "$AQUIFER_LISTEN"` + "\n"
	return script(t, text)
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRelayRun(t *testing.T) {
	code, out, errs := bench(t, "e2e", "--only=relay", "--jobs=200", "--warmup=20", "--rounds=2", "--c=8", "--json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	var rep report
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Rounds) != 2 || len(rep.Summaries) != 1 {
		t.Fatalf("%d rounds, %d summaries", len(rep.Rounds), len(rep.Summaries))
	}
	for _, r := range rep.Rounds {
		if want := (tally{Jobs: 220, Accepted: 220}); r.Tally != want {
			t.Errorf("round %d: %+v", r.Round, r.Tally)
		}
		if r.JobsPerSecond <= 0 || r.PeakRSS <= 0 || r.Accept.P50 <= 0 || r.EndToEnd.P50 <= 0 {
			t.Errorf("round %d has no figures: %+v", r.Round, r)
		}
	}
	if s := rep.Summaries[0]; s.Ratio.Median != 1 || s.Contender != relayName {
		t.Errorf("summary: %+v", s)
	}
}

func TestNodeRunAtARate(t *testing.T) {
	code, out, errs := bench(t, "e2e", "--node="+standIn(t), "--jobs=100", "--warmup=10", "--rounds=1", "--rate=500")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"open loop at 500/s", "node", "relay", "accept to dispatch"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestNodeThatDoesNotStart(t *testing.T) {
	tests := map[string]struct{ node, want string }{
		"missing":      {"/nowhere/aquifer", "no node to measure"},
		"ends at once": {script(t, "#!/bin/sh\necho no such setting\nexit 3\n"), "no such setting"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, _, errs := bench(t, "e2e", "--node="+tt.node, "--jobs=1", "--rounds=1")
			if code != commandline.Failed || !strings.Contains(errs, tt.want) {
				t.Errorf("exit code %d\n%s", code, errs)
			}
		})
	}
}

// TestBacklogFindsLoss ends the stand-in in order, so that no call of its life before is still on its way.
func TestBacklogFindsLoss(t *testing.T) {
	code, out, errs := bench(t, "backlog", "--node="+standIn(t), "--queued=200", "--probe=50", "--rounds=1", "--stall=3s", "--graceful", "--json")
	if code != commandline.Failed || !strings.Contains(errs, "200 of 200 queued jobs") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	var rep backlogReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Refused != 0 || rep.Ready <= 0 || rep.FirstCall != 0 || rep.Ratio.Median <= 0 {
		t.Errorf("%+v", rep)
	}
}

func TestSoakSurvivesRestarts(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "samples.csv")
	_, out, errs := bench(t, "soak", "--node="+standIn(t), "--rate=200", "--duration=2s", "--restarts=2",
		"--sample=50ms", "--retention=1s", "--csv="+csv, "--json")
	var rep soakReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if rep.Starts != 3 || rep.Kills != 1 || rep.Tally.Accepted != 400 || rep.Tally.Unsent != 0 {
		t.Errorf("%d starts, %d kills, %+v", rep.Starts, rep.Kills, rep.Tally)
	}
	raw, err := os.ReadFile(csv)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(raw), "\n"); lines != len(rep.Samples)+1 || lines < 2 {
		t.Errorf("%d lines for %d samples", lines, len(rep.Samples))
	}
}

func TestGateShowsEveryFigure(t *testing.T) {
	code, out, errs := bench(t, "gate", "--node="+standIn(t), "--jobs=50", "--warmup=10", "--rounds=1")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, mode := range []string{nodeDefault, nodeSync} {
		if n := strings.Count(out, "\n"+mode+" "); n < 9 {
			t.Errorf("%d lines of %s in\n%s", n, mode, out)
		}
	}
}

func TestUsage(t *testing.T) {
	tests := [][]string{
		{}, {"e2e", "--jobs=0"}, {"e2e", "--rounds=0"}, {"e2e", "--durability=none"}, {"soak", "--duration=0s"},
		{"soak", "--fraction=2"}, {"backlog", "--queued=0"}, {"gate", "--rounds=0"}, {"pace", "--only=nothing"}, {"nothing"},
	}
	for _, args := range tests {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			var o, e bytes.Buffer
			if code := program().Execute(t.Context(), args, commandline.Streams{Out: &o, Err: &e}); code != commandline.Usage {
				t.Errorf("exit code %d\n%s", code, e.String())
			}
		})
	}
	var o, e bytes.Buffer
	if code := program().Execute(t.Context(), []string{"soak", "--help"}, commandline.Streams{Out: &o, Err: &e}); code != 0 || !strings.Contains(o.String(), "--retention") {
		t.Errorf("help: exit code %d\n%s", code, o.String())
	}
}
