package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// result is one run against one contender.
type result struct {
	Contender     string    `json:"contender"`
	Round         int       `json:"round"`
	JobsPerSecond float64   `json:"jobs_per_second"`
	CPUSeconds    float64   `json:"cpu_seconds_per_1000_jobs"` // of the dispatcher
	HarnessMicros float64   `json:"harness_cpu_us_per_job"`    // of generator, target and receiver
	PeakRSS       int64     `json:"peak_rss_bytes"`            // of the dispatcher
	Goroutines    int       `json:"goroutines,omitempty"`      // of the dispatcher, when the work was done
	Accept        quantiles `json:"accept"`
	EndToEnd      quantiles `json:"end_to_end"`
	Tally         tally     `json:"tally"`
	Refusal       string    `json:"refusal,omitempty"` // why the first job was refused

	stages stages
}

// measure runs the workload once against a contender that starts afresh below root.
func measure(ctx context.Context, root string, who contender, w workload) (_ result, err error) {
	w.Jobs = cmp.Or(who.jobs, w.Jobs)
	dir, err := os.MkdirTemp(root, who.name+"-")
	if err != nil {
		return result{}, fmt.Errorf("directory of %s: %w", who.name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := newRun(dir, w, w.Warmup+w.Jobs)
	if err != nil {
		return result{}, err
	}
	res, err := r.against(ctx, dir, who, w)
	if closed := r.sinks.close(); closed != nil || err != nil {
		return result{}, errors.Join(err, closed)
	}
	// Only now has the last event been seen.
	res.Tally = r.ledger.tally(nil)
	res.stages = r.ledger.stages(w.Warmup, w.Warmup+w.Jobs)
	res.JobsPerSecond = res.stages.throughput()
	res.Accept, res.EndToEnd = quantilesOf(res.stages.accept), quantilesOf(res.stages.endToEnd)
	if r.refusal != nil {
		res.Refusal = r.refusal.Error()
	}
	return res, nil
}

func (r *run) against(ctx context.Context, dir string, who contender, w workload) (_ result, err error) {
	d, err := who.start(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	r.form.host = d.addr
	if err := r.closed(ctx, 0, w.Warmup); err != nil {
		return result{}, fmt.Errorf("warm-up: %w", err)
	}
	// What the harness allocated before is not to be collected at the measured one's expense.
	runtime.GC()

	before, err := r.meter(d)
	if err != nil {
		return result{}, err
	}
	if w.Rate > 0 {
		err = r.open(ctx, w.Rate, w.Warmup, w.Warmup+w.Jobs)
	} else {
		err = r.closed(ctx, w.Warmup, w.Warmup+w.Jobs)
	}
	if err != nil {
		return result{}, err
	}
	after, err := r.meter(d)
	if err != nil {
		return result{}, err
	}
	res := result{Contender: who.name, PeakRSS: after.peak, Goroutines: d.goroutines(ctx)}
	jobs := float64(w.Jobs)
	res.CPUSeconds = (after.dispatcher - before.dispatcher).Seconds() * 1000 / jobs
	res.HarnessMicros = float64((after.harness - before.harness).Microseconds()) / jobs

	select {
	case <-time.After(linger):
	case <-ctx.Done():
	}
	return res, ctx.Err()
}

// reading is what the processes of a run have used so far.
type reading struct {
	dispatcher, harness time.Duration
	peak                int64
}

func (r *run) meter(d *dispatcher) (reading, error) {
	var sum reading
	for _, pid := range []int{os.Getpid(), r.sinks.ID()} {
		u, err := usageOf(pid)
		if err != nil {
			return reading{}, err
		}
		sum.harness += u.CPU
	}
	for ; d != nil; d = d.behind {
		u, err := usageOf(d.ID())
		if err != nil {
			return reading{}, err
		}
		sum.dispatcher, sum.peak = sum.dispatcher+u.CPU, max(sum.peak, u.PeakRSS)
	}
	return sum, nil
}
