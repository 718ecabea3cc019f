// Package metrictest reads in tests what a program has measured of itself.
package metrictest

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Value returns a metric: of a gauge or a counter the value, of a histogram how many values it has. Of several
// series it is the sum of those that have all of these label values. That there is none fails the test.
func Value(t testing.TB, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total, found := 0.0, false
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && has(m, labels) {
				total, found = total+valueOf(m), true
			}
		}
	}
	if !found {
		t.Fatalf("there is no %s of %v", name, labels)
	}
	return total
}

func has(m *dto.Metric, labels []string) bool {
	for _, want := range labels {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == want }) {
			return false
		}
	}
	return true
}

func valueOf(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
}
