package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// summary is one contender over all rounds. Figures are medians, latencies are over all jobs.
type summary struct {
	Contender     string    `json:"contender"`
	JobsPerSecond spread    `json:"jobs_per_second"`
	Ratio         spread    `json:"ratio_to_relay"` // of each round's throughput to the relay's in that round; 0 without a relay
	CPUSeconds    spread    `json:"cpu_seconds_per_1000_jobs"`
	HarnessMicros spread    `json:"harness_cpu_us_per_job"`
	PeakRSS       spread    `json:"peak_rss_bytes"`
	Goroutines    spread    `json:"goroutines"`    // when the work was done; 0 if it does not tell
	AcceptP50     spread    `json:"accept_p50_ms"` // of the rounds
	AcceptP99     spread    `json:"accept_p99_ms"` // of the rounds
	Accept        quantiles `json:"accept"`
	Dispatch      quantiles `json:"accept_to_dispatch"`
	Webhook       quantiles `json:"dispatch_to_webhook"`
	EndToEnd      quantiles `json:"end_to_end"`
	Tally         tally     `json:"tally"` // the sum of all rounds
}

// spread is the median of some values, with the least and the greatest.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	s := spread{Median: median(values)}
	for i, v := range values {
		if i == 0 || v < s.Min {
			s.Min = v
		}
		if i == 0 || v > s.Max {
			s.Max = v
		}
	}
	return s
}

// compete runs the workload against each contender in turn, rounds times, so that a drift of the
// machine's speed meets all alike. It tells progress as it goes.
func compete(ctx context.Context, root string, field []contender, w workload, rounds int, progress io.Writer) ([]result, error) {
	var all []result
	for round := range rounds {
		for _, who := range field {
			res, err := measure(ctx, root, who, w)
			if err != nil {
				return all, fmt.Errorf("round %d, %s: %w", round+1, who.name, err)
			}
			res.Round = round + 1
			all = append(all, res)
			fmt.Fprintf(progress, "round %d/%d  %-12s %8.0f jobs/s  %s\n", round+1, rounds, who.name, res.JobsPerSecond, res.Refusal)
		}
	}
	return all, nil
}

// summarize returns one summary per contender, in the order in which they first ran.
func summarize(all []result) []summary {
	relay := map[int]float64{}
	var names []string
	byName := map[string][]result{}
	for _, r := range all {
		if r.Contender == relayName {
			relay[r.Round] = r.JobsPerSecond
		}
		if byName[r.Contender] == nil {
			names = append(names, r.Contender)
		}
		byName[r.Contender] = append(byName[r.Contender], r)
	}
	var list []summary
	for _, name := range names {
		list = append(list, summarizeOne(name, byName[name], relay))
	}
	return list
}

func summarizeOne(name string, rounds []result, relay map[int]float64) summary {
	pick := func(f func(result) float64) spread {
		var values []float64
		for _, r := range rounds {
			values = append(values, f(r))
		}
		return spreadOf(values)
	}
	var ratios []float64
	s := summary{Contender: name}
	latency := newStages()
	for _, r := range rounds {
		if base := relay[r.Round]; base > 0 {
			ratios = append(ratios, r.JobsPerSecond/base)
		}
		latency.merge(r.stages)
		s.Tally = s.Tally.plus(r.Tally)
	}
	s.Ratio = spreadOf(ratios)
	s.JobsPerSecond = pick(func(r result) float64 { return r.JobsPerSecond })
	s.CPUSeconds = pick(func(r result) float64 { return r.CPUSeconds })
	s.HarnessMicros = pick(func(r result) float64 { return r.HarnessMicros })
	s.PeakRSS = pick(func(r result) float64 { return float64(r.PeakRSS) })
	s.Goroutines = pick(func(r result) float64 { return float64(r.Goroutines) })
	s.AcceptP50 = pick(func(r result) float64 { return r.Accept.P50 })
	s.AcceptP99 = pick(func(r result) float64 { return r.Accept.P99 })
	s.Accept, s.Dispatch = quantilesOf(latency.accept), quantilesOf(latency.dispatch)
	s.Webhook, s.EndToEnd = quantilesOf(latency.webhook), quantilesOf(latency.endToEnd)
	return s
}

func (t tally) plus(o tally) tally {
	return tally{
		Jobs: t.Jobs + o.Jobs, Accepted: t.Accepted + o.Accepted, Refused: t.Refused + o.Refused,
		Unsent: t.Unsent + o.Unsent, Retried: t.Retried + o.Retried, Lost: t.Lost + o.Lost,
		DuplicateWebhooks: t.DuplicateWebhooks + o.DuplicateWebhooks, RepeatedCalls: t.RepeatedCalls + o.RepeatedCalls,
		AfterCrash: t.AfterCrash + o.AfterCrash, Altered: t.Altered + o.Altered, Failed: t.Failed + o.Failed,
		Strangers: t.Strangers + o.Strangers,
	}
}

// errBroken is that the dispatcher broke a promise, whatever its speed.
var errBroken = errors.New("a promise was broken")

// verdict is an error if jobs were lost, changed or done twice, or if the dispatcher stood still.
// Slowness is none: machines differ.
func (t tally) verdict(who string) error {
	if t.Lost+t.Unsent+t.DuplicateWebhooks+t.RepeatedCalls+t.Altered+t.Failed+t.Strangers == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s lost %d jobs, left %d unsent, sent %d duplicate webhooks, repeated %d calls, altered %d, failed %d, invented %d",
		errBroken, who, t.Lost, t.Unsent, t.DuplicateWebhooks, t.RepeatedCalls, t.Altered, t.Failed, t.Strangers)
}

func verdicts(list []summary) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.Tally.verdict(s.Contender))
	}
	return errors.Join(errs...)
}
