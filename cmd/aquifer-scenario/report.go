package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// outcome is one scenario with one provider: a line of JSON.
type outcome struct {
	Scenario   string  `json:"scenario"`
	Provider   string  `json:"provider"`
	Durability string  `json:"durability"`
	Passed     bool    `json:"passed"`
	Seconds    float64 `json:"seconds"`
	account
	// NoticedMS is how long at most the others saw a node that had been killed; 0: none was, or
	// they have a static list.
	NoticedMS int64    `json:"death_noticed_ms,omitempty"`
	Faults    []string `json:"faults,omitempty"` // what must not be
}

// noticeAtMost is how long a dead node may be seen.
func noticeAtMost(provider string) time.Duration {
	if provider == "valkey" {
		return instanceTTL + time.Second // the heartbeat of those that look
	}
	return 5 * time.Second
}

// lateAtMost is by how many ms this program may be late without a word. All connections go through it, so when it
// stands still, so does everything, and time limits run out that have nothing to do with the scenario.
const lateAtMost = 1000

// maxFaults is how many faults of a kind that has many are told in words.
const maxFaults = 20

// conclude sets the figures beside what the scenario allows.
func conclude(s scenario, o outcome, noticed time.Duration, err error) outcome {
	o.NoticedMS = noticed.Milliseconds()
	if limit := noticeAtMost(o.Provider); noticed > limit {
		o.fault("a dead node was seen for %d ms, allowed are %d", o.NoticedMS, limit.Milliseconds())
	}
	if s.calm && o.FailedCalls > 0 {
		o.fault("%d calls of clients failed, none may: %v", o.FailedCalls, o.FailedBy)
	}
	if limit := s.patience.Seconds() * 1000; o.Unavailable > limit {
		o.fault("a client had to insist for %.0f ms, allowed are %.0f%s", o.Unavailable, limit, longer(o.waits, limit))
	}
	if err != nil {
		o.fault("%v", err)
	}
	if len(o.faults) > 0 && o.Late > lateAtMost {
		o.fault("this program was %.0f ms late itself: the machine is too busy to judge by", o.Late)
	}
	o.Faults = o.faults
	if more := len(o.Faults) - maxFaults; more > 0 {
		o.Faults = append(o.Faults[:maxFaults:maxFaults], fmt.Sprintf("and %d more", more))
	}
	o.Passed = len(o.Faults) == 0
	return o
}

// longer tells who had to insist for longer than limit, in ms, and when.
func longer(waits []wait, limit float64) string {
	waits = slices.DeleteFunc(slices.Clone(waits), func(w wait) bool { return w.ms <= limit })
	if len(waits) == 0 {
		return ""
	}
	owners := make(map[place]int)
	for _, w := range waits {
		owners[w.owner]++
	}
	first, last := waits[0], waits[len(waits)-1]
	return fmt.Sprintf("; longer than that: %d, from %s at %.1f s to %s at %.1f s, by owner %v",
		len(waits), first.key, first.at.Seconds(), last.key, last.at.Seconds(), owners)
}

// writeTable writes all outcomes for people to read.
func writeTable(to io.Writer, list []outcome) error {
	tw := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join([]string{
		"scenario", "provider", "verdict", "accepted", "completed", "lost", "with volume", "twice", "webhooks twice",
		"failed calls", "p50 ms", "p99 ms", "longest ms", "noticed ms", "late ms",
	}, "\t"))
	for _, o := range list {
		verdict := "ok"
		if !o.Passed {
			verdict = "FAILED"
		}
		cells := []string{o.Scenario, o.Provider, verdict}
		for _, n := range []int{o.Accepted, o.Completed, o.Lost, o.LostWithVolume, o.ExecutedTwice, o.HooksTwice, o.FailedCalls} {
			cells = append(cells, strconv.Itoa(n))
		}
		for _, ms := range []float64{o.AckP50, o.AckP99, o.Unavailable} {
			cells = append(cells, fmt.Sprintf("%.0f", ms))
		}
		cells = append(cells, strconv.FormatInt(o.NoticedMS, 10), fmt.Sprintf("%.0f", o.Late))
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, o := range list {
		for _, f := range o.Faults {
			fmt.Fprintf(to, "%s with %s: %s\n", o.Scenario, o.Provider, f)
		}
	}
	return nil
}
