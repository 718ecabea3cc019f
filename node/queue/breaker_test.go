package queue

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// A breaker learns from turns, is known for as long as its target is, and holds back no turn.
func TestABreakerLearnsFromTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		said := pace.Signal{Failed: true, Unreachable: true}
		q := newRig(Config{
			Registerer: registry,
			Settings: func(string) pace.Settings {
				return pace.Settings{RPS: 100, MaxConcurrent: 1, Breaker: pace.Cooldown{Default: time.Hour}}
			},
			Runner: runner(func(t *Turn) Verdict {
				t.Release(said)
				return Ended
			}),
		})
		shown := func() (pace.BreakerKind, time.Time) {
			t.Helper()
			v, _, ok := q.View("http://api", 0)
			if !ok {
				t.Fatal("the target is forgotten")
			}
			return v.Breaker.Open(time.Now())
		}
		stop := q.start(t)
		defer stop()
		for range 2 {
			q.add(laneOf("api", 1), 1)
			q.idle(t)
			time.Sleep(time.Minute)
		}
		if kind, _ := shown(); kind != pace.BreakerClosed {
			t.Errorf("after two attempts that could not connect it is %v", kind)
		}
		q.add(laneOf("api", 2), 1)
		q.idle(t)
		opened := time.Now()
		time.Sleep(50 * time.Minute)
		if kind, until := shown(); kind != pace.BreakerReroute || !until.Equal(opened.Add(time.Hour)) {
			t.Errorf("after the third it is %v until %v", kind, until)
		}
		said = pace.Signal{Status: 200}
		q.add(laneOf("api", 1), 10)
		q.idle(t)
		if waited := time.Since(opened) - 50*time.Minute; waited > 5*time.Second {
			t.Errorf("ten turns took %v beside an open breaker", waited)
		}
		time.Sleep(10 * time.Minute)
		if kind, _ := shown(); kind != pace.BreakerClosed {
			t.Errorf("after its cooldown it is %v", kind)
		}
		for kind, want := range map[string]float64{"reroute": 1, "queue": 0} {
			if n := metrictest.Value(t, registry, "aquifer_breaker_trips_total", kind); n != want {
				t.Errorf("%v trips of kind %s, want %v", n, kind, want)
			}
		}
	})
}

// Deliveries have no direct calls, and so no breaker that would be of use.
func TestOnlyCallsCountTrips(t *testing.T) {
	registry := prometheus.NewRegistry()
	New(Config{Line: job.Deliveries, Registerer: registry})
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "aquifer_breaker_trips_total" {
			t.Error("trips of receivers are counted")
		}
	}
}
