package handoff_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/handoff"
)

// shown are the metrics of a node, by name and label: of a histogram its count. What is 0 is left out.
func (n *node) shown() map[string]float64 {
	n.w.t.Helper()
	families, err := n.registry.Gather()
	n.ok(err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := strings.Join(append([]string{strings.TrimPrefix(f.GetName(), "aquifer_handoff_")}, labels...), " ")
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()); v != 0 {
				all[name] = v
			}
		}
	}
	return all
}

func (n *node) shows(want map[string]float64) {
	n.w.t.Helper()
	if got := n.shown(); !maps.Equal(got, want) {
		n.w.t.Errorf("%s shows %v, want %v", n.id, got, want)
	}
}

// TestMetrics: each end counts what it has done, and the giver what it does not know.
func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		a, b := w.nodes["a"], w.nodes["b"]
		a.add("u", 4)
		b.refuse(errors.New("no room"))
		w.want(a.drain(50*time.Millisecond), handoff.Report{Left: 4})
		a.shows(map[string]float64{"jobs_total kept": 4, "batch_seconds give": 1})
		b.shows(map[string]float64{"jobs_total refused": 4, "batch_seconds take": 1})

		b.refuse(nil)
		w.links["b"] = mute
		w.want(a.drain(50*time.Millisecond), handoff.Report{Doubt: 4})
		a.shows(map[string]float64{"jobs_total kept": 4, "batch_seconds give": 2, "jobs_in_doubt": 4})
		b.shows(map[string]float64{"jobs_total refused": 4, "jobs_total taken": 4, "batch_seconds take": 2})
		w.links["b"] = sound
		a.ok(a.giver.Resume(t.Context()))
		a.shows(map[string]float64{"jobs_total kept": 4, "jobs_total given": 4, "batch_seconds give": 3})
		b.shows(map[string]float64{"jobs_total refused": 4, "jobs_total taken": 4, "batch_seconds take": 3})

		a.add("u", 3)
		w.links["b"] = lost
		w.want(a.drain(50*time.Millisecond), handoff.Report{Doubt: 3})
		a.start()
		a.ok(a.giver.Resume(t.Context()))
		if got := a.shown(); got["jobs_total kept"] != 3 || got["jobs_in_doubt"] != 0 {
			t.Errorf("after patience has ended a shows %v", got)
		}
	})
}
