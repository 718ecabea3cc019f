package metrictest_test

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/node/metrictest"
)

func measured() *prometheus.Registry {
	r := prometheus.NewRegistry()
	factory := promauto.With(r)
	calls := factory.NewCounterVec(prometheus.CounterOpts{Name: "calls", Help: "-"}, []string{"result", "target"})
	calls.WithLabelValues("ok", "a").Add(1)
	calls.WithLabelValues("failed", "a").Add(2)
	calls.WithLabelValues("ok", "b").Add(4)
	factory.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "-"}).Set(-3)
	wait := factory.NewHistogram(prometheus.HistogramOpts{Name: "wait", Help: "-"})
	wait.Observe(70)
	wait.Observe(80)
	return r
}

func TestValue(t *testing.T) {
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"calls", nil, 7}, {"calls", []string{"ok"}, 5}, {"calls", []string{"a"}, 3}, {"calls", []string{"b", "ok"}, 4},
		{"open", nil, -3}, {"wait", nil, 2},
	} {
		if got := metrictest.Value(t, measured(), tt.name, tt.labels...); got != tt.want {
			t.Errorf("%s of %v is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
}

// judge is a test that may fail.
type judge struct {
	testing.TB
	failed bool
}

func (*judge) Helper() {}

func (j *judge) Fatalf(string, ...any) {
	j.failed = true
	runtime.Goexit()
}

func TestNoValue(t *testing.T) {
	for name, labels := range map[string][]string{"call": nil, "calls": {"late"}, "open": {"ok"}} {
		j := &judge{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			metrictest.Value(j, measured(), name, labels...)
		}()
		if <-done; !j.failed {
			t.Errorf("there is a %s of %v", name, labels)
		}
	}
}
