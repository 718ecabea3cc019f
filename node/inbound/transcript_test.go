package inbound

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the right-hand sides in testdata")

// TestTranscript plays testdata/congestion.txt: each line is a tick, what it brings on the left and
// what has come of it on the right.
func TestTranscript(t *testing.T) {
	const path = "testdata/congestion.txt"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p player
	lines := strings.Split(string(file), "\n")
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, _, _ := strings.Cut(line, "|")
		right, err := p.play(left)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		played := left + "| " + right
		if played != line && !*update {
			t.Errorf("%s:%d:\ngot  %s\nwant %s", path, i+1, played, line)
		}
		lines[i] = played
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// player plays lines to a controller, a second apart.
type player struct {
	controller *Controller
	now        time.Time
}

func (p *player) play(line string) (string, error) {
	var c Config
	if n, _ := fmt.Sscanf(line, "start %g %g", &c.BenchmarkRPS, &c.StartPercent); n == 2 {
		p.now = time.Unix(0, 0)
		p.controller = NewController(c, p.now)
		return text(p.controller.State()), nil
	}
	var r Readings
	var latency string
	if _, err := fmt.Sscanf(line, "%d %s %d", &r.Inserts, &latency, &r.Backlog); err != nil {
		return "", err
	}
	took, err := time.ParseDuration(latency)
	if err != nil {
		return "", err
	}
	r.Latencies = slices.Repeat([]time.Duration{took}, r.Inserts)
	p.now = p.now.Add(time.Second)
	return text(p.controller.Tick(p.now, r)), nil
}

func text(s State) string {
	return fmt.Sprintf("%7.2f  %7.2f  %-8v  %4d %6d  %s",
		s.Rate, s.Threshold, s.Baseline.Round(time.Microsecond), s.Cuts, s.Raises, s.LastAdjustment)
}
