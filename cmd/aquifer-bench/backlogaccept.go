package main

import (
	"context"
	"fmt"
	"io"
)

// compare measures the accept rate of the node with the backlog and of an empty one, in turn.
func (b *backlog) compare(ctx context.Context, full *dispatcher) error {
	var withBacklog, empty, ratio []float64
	fullStages, emptyStages := newStages(), newStages()
	for round := range b.Rounds {
		a, err := b.submit(ctx, full, b.Probe)
		if err != nil {
			return fmt.Errorf("accept with the backlog: %w", err)
		}
		e, err := b.probeEmpty(ctx, fmt.Sprintf("empty-%d", round))
		if err != nil {
			return err
		}
		fullStages.merge(a)
		emptyStages.merge(e)
		withBacklog, empty = append(withBacklog, a.acceptRate()), append(empty, e.acceptRate())
		if e.acceptRate() > 0 {
			ratio = append(ratio, a.acceptRate()/e.acceptRate())
		}
		b.say("round %d/%d  accepts %.0f/s with the backlog, %.0f/s empty", round+1, b.Rounds, a.acceptRate(), e.acceptRate())
	}
	b.report.AcceptFull, b.report.AcceptEmpty, b.report.Ratio = spreadOf(withBacklog), spreadOf(empty), spreadOf(ratio)
	b.report.FullLatency, b.report.EmptyLatency = quantilesOf(fullStages.accept), quantilesOf(emptyStages.accept)
	return nil
}

func (b *backlog) probeEmpty(ctx context.Context, name string) (stages, error) {
	n, err := b.node(name)
	if err != nil {
		return stages{}, err
	}
	d, err := n.start(ctx)
	if err != nil {
		return stages{}, err
	}
	defer d.Kill()
	s, err := b.submit(ctx, d, b.Probe)
	if err != nil {
		return stages{}, fmt.Errorf("accept of an empty node: %w", err)
	}
	return s, nil
}

func (r backlogReport) firstCall() string {
	if r.FirstCall == 0 {
		return "none came"
	}
	return fmt.Sprintf("%.2f", r.FirstCall)
}

func (r backlogReport) write(w io.Writer) error {
	fmt.Fprintf(w, "%s\ndurability %s, %d jobs queued\n\n", r.Machine, r.Durability, r.Queued)
	t := table{head: []string{"figure", "value", "wanted"}}
	t.add("queued at, jobs/s", fmt.Sprintf("%.0f", r.FillRate), "")
	t.add("refused", fmt.Sprint(r.Refused), "0")
	t.add("database, MB", megabytes(float64(r.DatabaseSize)), "")
	t.add("RSS before the restart, MB", megabytes(float64(r.FilledRSS)), "")
	t.add("ready after, s", fmt.Sprintf("%.2f", r.Ready), "5")
	t.add("first call after, s", r.firstCall(), "at once when ready")
	t.add("RSS when ready, MB", megabytes(float64(r.ReadyRSS)), "")
	t.add("peak RSS at the first call, MB", megabytes(float64(r.PeakRSS)), "below 300")
	t.add("peak RSS at the end, MB", megabytes(float64(r.EndRSS)), "")
	t.add("accept with the backlog, jobs/s", fmt.Sprintf("%.0f", r.AcceptFull.Median), "")
	t.add("accept of an empty node, jobs/s", fmt.Sprintf("%.0f", r.AcceptEmpty.Median), "")
	t.add("ratio (min-max)", fmt.Sprintf("%.2f (%.2f-%.2f)", r.Ratio.Median, r.Ratio.Min, r.Ratio.Max), "0.90")
	t.add("accept p50/p99 with the backlog, ms", millis(r.FullLatency.P50)+" / "+millis(r.FullLatency.P99), "")
	t.add("accept p50/p99 of an empty node, ms", millis(r.EmptyLatency.P50)+" / "+millis(r.EmptyLatency.P99), "")
	t.add("jobs lost of those checked", fmt.Sprintf("%d of %d", r.Lost, r.Checked), "0")
	return t.write(w)
}
