package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// soakReport is the result.
type soakReport struct {
	Machine    machine    `json:"machine"`
	Durability durability `json:"durability"`
	Rate       float64    `json:"jobs_per_second"`
	Starts     int        `json:"starts"`
	Kills      int        `json:"kills"`
	JudgedFrom float64    `json:"judged_from_seconds"`
	Trends     []trend    `json:"trends"`
	EndToEnd   quantiles  `json:"end_to_end"` // with the restarts
	Tally      tally      `json:"tally"`
	Samples    []sample   `json:"samples"`
}

// errGrows is that a figure of the node was not flat.
var errGrows = errors.New("not flat")

// flatness is an error if a figure grew.
func flatness(list []trend) error {
	var errs []error
	for _, t := range list {
		switch {
		case t.Samples < minSamples:
			errs = append(errs, fmt.Errorf("%w: %s has only %d samples to judge by", errGrows, t.Name, t.Samples))
		case !t.Flat:
			errs = append(errs, fmt.Errorf("%w: %s grew by %.0f, allowed is %.0f", errGrows, t.Name, t.Growth, t.Allowed))
		}
	}
	return errors.Join(errs...)
}

func (c *soakCmd) write(w io.Writer, rep soakReport) error {
	if c.CSV != "" {
		lines := []string{csvHead}
		for _, s := range rep.Samples {
			lines = append(lines, s.csv())
		}
		if err := os.WriteFile(c.CSV, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return fmt.Errorf("write samples: %w", err)
		}
	}
	if c.JSON {
		return writeIndented(w, rep)
	}
	fmt.Fprintf(w, "%s\ndurability %s, %.0f jobs/s for %s, %d starts, %d kill -9\n\n",
		rep.Machine, rep.Durability, rep.Rate, c.Duration, rep.Starts, rep.Kills)
	for _, t := range []table{samplesTable(rep.Samples), trendsTable(rep.Trends), accountTable(rep)} {
		if err := t.write(w); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "judged from second %.0f on\n", rep.JudgedFrom)
	return nil
}

// samplesTable shows about twenty samples; the rest is in the CSV.
func samplesTable(samples []sample) table {
	t := table{head: []string{"second", "start", "RSS MB", "goroutines", "open files", "database MB", "delivered"}}
	step := max(1, len(samples)/20)
	for i := 0; i < len(samples); i += step {
		s := samples[i]
		t.add(fmt.Sprintf("%.0f", s.At.Seconds()), fmt.Sprint(s.Start), megabytes(float64(s.RSS)), fmt.Sprint(s.Goroutines),
			fmt.Sprint(s.Files), megabytes(float64(s.Database)), fmt.Sprint(s.Delivered))
	}
	return t
}

func (t trend) word() string {
	switch {
	case t.Max == 0:
		return "not measured"
	case t.Flat:
		return "flat"
	default:
		return "NOT FLAT"
	}
}

func trendsTable(list []trend) table {
	t := table{head: []string{"figure", "first third", "last third", "min", "max", "growth", "allowed", "verdict"}}
	for _, x := range list {
		t.add(x.Name, fmt.Sprintf("%.0f", x.First), fmt.Sprintf("%.0f", x.Last), fmt.Sprintf("%.0f", x.Min),
			fmt.Sprintf("%.0f", x.Max), fmt.Sprintf("%.0f", x.Growth), fmt.Sprintf("%.0f", x.Allowed), x.word())
	}
	return t
}

func accountTable(rep soakReport) table {
	t := table{head: []string{
		"jobs", "accepted", "refused", "unsent", "sent again", "lost", "duplicate webhooks", "repeated calls", "after kill -9", "p50 ms", "p99 ms", "max ms",
	}}
	a := rep.Tally
	t.add(fmt.Sprint(a.Jobs), fmt.Sprint(a.Accepted), fmt.Sprint(a.Refused), fmt.Sprint(a.Unsent), fmt.Sprint(a.Retried), fmt.Sprint(a.Lost),
		fmt.Sprint(a.DuplicateWebhooks), fmt.Sprint(a.RepeatedCalls), fmt.Sprint(a.AfterCrash),
		millis(rep.EndToEnd.P50), millis(rep.EndToEnd.P99), millis(rep.EndToEnd.Max))
	return t
}
