package main

import "fmt"

// check is one figure beside its limit.
type check struct {
	Mode    string  `json:"mode,omitempty"`
	Figure  string  `json:"figure"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"` // the figure must not be below the limit; else not above
	Got     float64 `json:"got"`
	OK      bool    `json:"ok"`
}

func (c check) limit() string {
	if c.AtLeast {
		return fmt.Sprintf(">= %.4g", c.Limit)
	}
	return fmt.Sprintf("<= %.4g", c.Limit)
}

func (c check) word() string {
	if c.OK {
		return "ok"
	}
	return "MISS"
}

func atLeast(mode, figure string, got, limit float64) check {
	return check{Mode: mode, Figure: figure, Limit: limit, AtLeast: true, Got: got, OK: got >= limit}
}

func atMost(mode, figure string, got, limit float64) check {
	return check{Mode: mode, Figure: figure, Limit: limit, Got: got, OK: got <= limit}
}

// limits are what one mode must reach on two cores that it shares with the harness.
type limits struct {
	mode     string
	ratio    float64 // throughput to the relay's
	cpu      float64 // seconds per 1,000 jobs, on a machine where the relay uses relayCPU
	p50, p99 float64 // accept at 1,000/s, ms, on a machine where the relay needs relayP50 and relayP99
}

// What the relay needs on the machine for which the limits were set: CPU seconds per 1,000 jobs, and milliseconds to accept one at
// 1,000/s. On another machine, or a busy one, only the ratio to the relay's tells something of the node.
const (
	relayCPU = 0.101
	relayP50 = 0.2
	relayP99 = 0.7
)

func gateLimits() []limits {
	return []limits{
		{mode: nodeDefault, ratio: 0.85, cpu: 0.12, p50: 0.4, p99: 2},
		{mode: nodeSync, ratio: 0.75, cpu: 0.13, p50: 0.8, p99: 3},
	}
}

// checks sets what was measured beside the limits. What was not measured has no check.
func checks(rep gateReport) []check {
	var list []check
	for _, l := range gateLimits() {
		list = append(list, l.closed(rep.Closed)...)
		list = append(list, l.open(rep.Open)...)
		var sum tally
		for _, part := range [][]summary{rep.Closed, rep.Open} {
			for _, name := range []string{l.mode, longName(l.mode, longJobs)} {
				s, _ := of(part, name)
				sum = sum.plus(s.Tally)
			}
		}
		list = append(list,
			atMost(l.mode, "refused", float64(sum.Refused), 0),
			atMost(l.mode, "lost", float64(sum.Lost), 0),
			atMost(l.mode, "duplicate webhooks", float64(sum.DuplicateWebhooks), 0),
			atMost(l.mode, "repeated calls", float64(sum.RepeatedCalls), 0))
	}
	return list
}

// closed checks what was measured in the closed loop.
func (l limits) closed(list []summary) (checks []check) {
	node, ran := of(list, l.mode)
	if !ran {
		return nil
	}
	checks = append(checks,
		atLeast(l.mode, "throughput to the relay's", node.Ratio.Median, l.ratio),
		atMost(l.mode, "CPU s per 1,000 jobs", node.CPUSeconds.Median, l.cpu),
		atMost(l.mode, "peak RSS, MB", node.PeakRSS.Median/1e6, 110))
	if relay, ran := of(list, relayName); ran && relay.CPUSeconds.Median > 0 {
		checks = append(checks, atMost(l.mode, "CPU to the relay's", node.CPUSeconds.Median/relay.CPUSeconds.Median, l.cpu/relayCPU))
	}
	if long, ran := of(list, longName(l.mode, longJobs)); ran && node.JobsPerSecond.Median > 0 {
		checks = append(checks, atLeast(l.mode, "300,000 jobs to fewer, throughput",
			long.JobsPerSecond.Median/node.JobsPerSecond.Median, 0.95))
	}
	return checks
}

// open checks what was measured at 1,000/s.
func (l limits) open(list []summary) (checks []check) {
	node, ran := of(list, l.mode)
	if !ran {
		return nil
	}
	checks = append(checks,
		atMost(l.mode, "accept p50 at 1,000/s, ms", node.AcceptP50.Median, l.p50),
		atMost(l.mode, "accept p99 at 1,000/s, ms", node.AcceptP99.Median, l.p99))
	if relay, ran := of(list, relayName); ran && relay.AcceptP50.Median > 0 {
		checks = append(checks,
			atMost(l.mode, "accept p50 to the relay's", node.AcceptP50.Median/relay.AcceptP50.Median, l.p50/relayP50),
			atMost(l.mode, "accept p99 to the relay's", node.AcceptP99.Median/relay.AcceptP99.Median, l.p99/relayP99))
	}
	return checks
}

func of(list []summary, name string) (summary, bool) {
	for _, s := range list {
		if s.Contender == name {
			return s, true
		}
	}
	return summary{}, false
}
