package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Targets and tenants with most to do have metrics of their own, and no more of them than the bound.
func TestMetricsOfTargetsAndTenantsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		q := newRig(Config{
			Settings: settings(50, 4), Runner: runner(endAll), Registerer: r, CountTenants: true, TenantMetrics: true,
		})
		for i := range maxSeries + 20 {
			q.add(laneOf(fmt.Sprint("api-", i), i), 1)
		}
		q.add(laneOf("busy", 7), 3)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, f := range families {
			seen[f.GetName()] = len(f.GetMetric())
		}
		for _, name := range []string{"aquifer_target_backlog", "aquifer_target_rps", "aquifer_tenant_backlog"} {
			if seen[name] != maxSeries {
				t.Errorf("%d series of %s", seen[name], name)
			}
		}
		busy := map[string]float64{
			"aquifer_target_backlog": 3, "aquifer_target_in_flight": 0, "aquifer_target_rps": 50, "aquifer_target_max_concurrent": 4,
			"aquifer_target_rps_configured": 50, "aquifer_target_max_concurrent_configured": 4,
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if want, ok := busy[f.GetName()]; ok && l.GetValue() == "http://busy" && m.GetGauge().GetValue() != want {
						t.Errorf("%s of the busy target is %v, want %v", f.GetName(), m.GetGauge().GetValue(), want)
					}
				}
			}
		}
	})
}

// What a target says counts by the header that says it.
func TestHintsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		q := newRig(Config{Settings: settings(50, 4), Registerer: r, Runner: runner(func(t *Turn) Verdict {
			t.Release(pace.Signal{
				Status: 200, RPS: pace.Hint[float64]{Value: 20, Header: "X-Aqueduct-Rps"},
				MaxConcurrent: pace.Hint[int]{Value: 2, Header: "X-Aquifer-Max-Concurrent"},
			})
			return Ended
		})})
		stop := q.start(t)
		q.add(laneOf("api", 1), 3)
		time.Sleep(time.Minute)
		stop()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "aquifer_target_hints_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "header" {
						got[l.GetValue()] = m.GetCounter().GetValue()
					}
				}
			}
		}
		if got["X-Aqueduct-Rps"] != 3 || got["X-Aquifer-Max-Concurrent"] != 3 || got["Retry-After"] != 0 {
			t.Errorf("counted %v", got)
		}
	})
}
