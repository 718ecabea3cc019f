package main

import (
	"fmt"
	"strings"
	"time"
)

// tally is how far the jobs of one tenant are.
type tally struct {
	name                          string
	burst                         int // jobs that the tenant sends, all at once
	accepted, released, delivered int
}

// scene is one moment of the demo.
type scene struct {
	server  string        // address of the node
	rps     int           // what the target takes
	elapsed time.Duration // since the burst began
	// accepting is how long it took until all jobs were accepted; 0 before that.
	accepting time.Duration
	releases  []time.Duration // when the target was called, since the burst began, in order
	tenants   []tally
}

func (s scene) total() tally {
	var sum tally
	for _, t := range s.tenants {
		sum.burst += t.burst
		sum.accepted += t.accepted
		sum.released += t.released
		sum.delivered += t.delivered
	}
	return sum
}

// done reports whether every result has reached its receiver.
func (s scene) done() bool {
	t := s.total()
	return t.delivered >= t.burst
}

// frame draws the moment for a terminal, in lines without their ends.
func (s scene) frame() []string {
	sum := s.total()
	lines := []string{
		fmt.Sprintf("A target takes %d requests a second. %d tenants send it %d jobs at once.", s.rps, len(s.tenants), sum.burst),
		"",
		fmt.Sprintf("  accepted   %3d of %d  %s", sum.accepted, sum.burst, s.acceptedHow()),
		fmt.Sprintf("  released   %3d of %d  %s", sum.released, sum.burst, s.releasedHow()),
		fmt.Sprintf("  delivered  %3d of %d  to the webhook receiver", sum.delivered, sum.burst),
		"",
	}
	for _, t := range s.tenants {
		lines = append(lines, fmt.Sprintf("  %-7s %s  %d of %d", t.name, t.bar(s.widest()), t.released, t.burst))
	}
	return append(lines,
		"          █ delivered  ▓ released  ░ accepted, waits its turn  · not accepted yet",
		"",
		fmt.Sprintf("  %5.1f s  the node is at %s until the end", s.elapsed.Seconds(), s.server),
	)
}

// line tells the moment in one line, for a file or a pipe.
func (s scene) line() string {
	sum := s.total()
	each := make([]string, len(s.tenants))
	for i, t := range s.tenants {
		each[i] = fmt.Sprintf("%s %d/%d", t.name, t.released, t.burst)
	}
	return fmt.Sprintf("%5.1fs  accepted %d/%d  released %d/%d (%s)  delivered %d/%d",
		s.elapsed.Seconds(), sum.accepted, sum.burst, sum.released, sum.burst,
		strings.Join(each, ", "), sum.delivered, sum.burst)
}

func (s scene) acceptedHow() string {
	if s.accepting == 0 {
		return ""
	}
	return fmt.Sprintf("in %d ms, each kept before it was answered", max(s.accepting.Milliseconds(), 1))
}

func (s scene) releasedHow() string {
	if s.rate() == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f a second, the tenants in turn", s.rate())
}

// rate is the mean rate of the releases a second; 0 while there are fewer than two.
func (s scene) rate() float64 {
	n := len(s.releases)
	if n < 2 || s.releases[n-1] <= s.releases[0] {
		return 0
	}
	return float64(n-1) / (s.releases[n-1] - s.releases[0]).Seconds()
}

func (s scene) widest() int {
	widest := 0
	for _, t := range s.tenants {
		widest = max(widest, t.burst)
	}
	return widest
}

// bar draws one cell for each job and pads the row to width cells.
func (t tally) bar(width int) string {
	released := max(t.released, t.delivered)
	accepted := max(t.accepted, released)
	return strings.Repeat("█", t.delivered) +
		strings.Repeat("▓", released-t.delivered) +
		strings.Repeat("░", accepted-released) +
		strings.Repeat("·", max(t.burst-accepted, 0)) +
		strings.Repeat(" ", max(width-max(t.burst, accepted), 0))
}

// ending is what the demo has shown and what to do next.
func (s scene) ending() string {
	return fmt.Sprintf(`
%d jobs were accepted in %d ms. Their target was called %.1f times a second, for each tenant in turn:
no one waited behind the longest queue. All %d results went to the webhook receiver. The node has
stopped and its store is gone.

Try next:
  aquifer                        run a node on port 8080, with its store in ./aquifer.db
  aquifer job submit --url https://example.com/ --webhook https://example.com/hook --wait
                                 give it a job, from another terminal
  aquifer serve --help           how to tell it the pace of your own targets
`, s.total().burst, max(s.accepting.Milliseconds(), 1), s.rate(), s.total().delivered)
}
