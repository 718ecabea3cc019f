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
	p50, p99 float64 // accept at 1,000/s, ms
}

// relayCPU is what the relay uses on the machine for which the limits of CPU time were set, in seconds per 1,000 jobs. On another
// one, or a busy one, only the ratio to the relay's tells something of the node.
const relayCPU = 0.101

func gateLimits() []limits {
	return []limits{
		{mode: nodeDefault, ratio: 0.85, cpu: 0.12, p50: 0.4, p99: 2},
		{mode: nodeSync, ratio: 0.75, cpu: 0.13, p50: 0.8, p99: 3},
	}
}

// checks sets what was measured beside the limits. What was not measured has no check.
func checks(rep gateReport) []check {
	var list []check
	relay, _ := of(rep.Closed, relayName)
	for _, l := range gateLimits() {
		closed, ran := of(rep.Closed, l.mode)
		if ran {
			list = append(list,
				atLeast(l.mode, "throughput to the relay's", closed.Ratio.Median, l.ratio),
				atMost(l.mode, "CPU s per 1,000 jobs", closed.CPUSeconds.Median, l.cpu),
				atMost(l.mode, "peak RSS, MB", closed.PeakRSS.Median/1e6, 110))
		}
		if base := relay.CPUSeconds.Median; ran && base > 0 {
			list = append(list, atMost(l.mode, "CPU to the relay's", closed.CPUSeconds.Median/base, l.cpu/relayCPU))
		}
		open, opened := of(rep.Open, l.mode)
		if opened {
			list = append(list,
				atMost(l.mode, "accept p50 at 1,000/s, ms", open.AcceptP50.Median, l.p50),
				atMost(l.mode, "accept p99 at 1,000/s, ms", open.AcceptP99.Median, l.p99))
		}
		long, went := of(rep.Closed, longName(l.mode, longJobs))
		if ran && went && closed.JobsPerSecond.Median > 0 {
			list = append(list, atLeast(l.mode, "300,000 jobs to fewer, throughput",
				long.JobsPerSecond.Median/closed.JobsPerSecond.Median, 0.95))
		}
		sum := closed.Tally.plus(open.Tally).plus(long.Tally)
		list = append(list,
			atMost(l.mode, "refused", float64(sum.Refused), 0),
			atMost(l.mode, "lost", float64(sum.Lost), 0),
			atMost(l.mode, "duplicate webhooks", float64(sum.DuplicateWebhooks), 0),
			atMost(l.mode, "repeated calls", float64(sum.RepeatedCalls), 0))
	}
	return list
}

func of(list []summary, name string) (summary, bool) {
	for _, s := range list {
		if s.Contender == name {
			return s, true
		}
	}
	return summary{}, false
}
