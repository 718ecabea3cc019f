package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is rows under a head, set in columns.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(t.head, "\t"))
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush() // reports what the lines before could not write
}

func writeSummaries(w io.Writer, list []summary) error {
	figures := table{head: []string{
		"contender", "jobs/s", "(min-max)", "to relay", "(min-max)", "CPU s/1000", "peak RSS MB", "goroutines", "harness µs/job",
	}}
	faults := table{head: []string{
		"contender", "accepted", "refused", "unsent", "lost", "duplicate webhooks", "repeated calls", "altered", "failed",
	}}
	latency := table{head: []string{"contender", "stage", "p50 ms", "p90 ms", "p99 ms", "max ms"}}
	for _, s := range list {
		figures.add(s.Contender,
			fmt.Sprintf("%.0f", s.JobsPerSecond.Median), fmt.Sprintf("%.0f-%.0f", s.JobsPerSecond.Min, s.JobsPerSecond.Max),
			fmt.Sprintf("%.2f", s.Ratio.Median), fmt.Sprintf("%.2f-%.2f", s.Ratio.Min, s.Ratio.Max),
			fmt.Sprintf("%.3f", s.CPUSeconds.Median), megabytes(s.PeakRSS.Median), fmt.Sprintf("%.0f", s.Goroutines.Median),
			fmt.Sprintf("%.0f", s.HarnessMicros.Median))
		t := s.Tally
		faults.add(s.Contender, fmt.Sprint(t.Accepted), fmt.Sprint(t.Refused), fmt.Sprint(t.Unsent), fmt.Sprint(t.Lost),
			fmt.Sprint(t.DuplicateWebhooks), fmt.Sprint(t.RepeatedCalls), fmt.Sprint(t.Altered), fmt.Sprint(t.Failed))
		for _, stage := range []struct {
			name string
			q    quantiles
		}{
			{"accept", s.Accept}, {"accept to dispatch", s.Dispatch},
			{"dispatch to webhook", s.Webhook}, {"end to end", s.EndToEnd},
		} {
			latency.add(s.Contender, stage.name, millis(stage.q.P50), millis(stage.q.P90), millis(stage.q.P99), millis(stage.q.Max))
		}
	}
	for _, t := range []table{figures, latency, faults} {
		fmt.Fprintln(w)
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f", n/1e6) }

func millis(ms float64) string { return fmt.Sprintf("%.2f", ms) }

func writeIndented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
