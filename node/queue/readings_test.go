package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen Load
		q := newRig(Config{Settings: settings(7, 1), Runner: runner(func(t *Turn) Verdict {
			if t.Entry.Lane.Host() == "api" {
				seen = t.Load()
			}
			time.Sleep(time.Minute)
			return Ended
		})})
		if l := q.Load(laneOf("api", 1)); l != (Load{Rate: 7}) {
			t.Errorf("of an unknown target: %+v", l)
		}
		q.add(laneOf("api", 1), 3)
		q.add(laneOf("api", 2), 1)
		q.add(laneOf("other", 1), 1)
		p, joined := q.Join(laneOf("api", 2), id(99))
		want := Load{Total: 6, Waiting: 6, Rate: 7, ActiveLanes: 2, TargetBacklog: 5, LaneBacklog: 2}
		if l := q.Load(laneOf("api", 2)); l != want || joined != want {
			t.Errorf("got %+v and %+v, want %+v", l, joined, want)
		}
		p.Cancel()
		want = Load{Total: 5, Waiting: 5, Rate: 7, ActiveLanes: 2, TargetBacklog: 4}
		if l := q.Load(laneOf("api", 3)); l != want {
			t.Errorf("got %+v, want %+v", l, want)
		}
		stop := q.start(t)
		time.Sleep(time.Second)
		q.idle(t)
		stop()
		if want := (Load{Total: 1, Rate: 7, ActiveLanes: 1, TargetBacklog: 1, LaneBacklog: 1}); seen != want {
			t.Errorf("the last turn sees %+v, want %+v", seen, want)
		}
	})
}

func TestMetricsOfBothLines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		calls := newRig(Config{Settings: settings(10, 10), Registerer: registry, Runner: runner(endAll)})
		New(Config{Line: job.Deliveries, Settings: settings(10, 10), Registerer: registry, Backlog: newDisk(), Runner: runner(endAll)})
		calls.add(laneOf("api", 1), 3)
		if n := value(t, registry, "aquifer_queue_backlog"); n != 3 {
			t.Errorf("backlog is %v", n)
		}
		stop := calls.start(t)
		calls.idle(t)
		stop()
		if n := value(t, registry, "aquifer_queue_wait_seconds"); n != 3 {
			t.Errorf("%v waits are measured", n)
		}
	})
}

// value is a metric of the calls; of a histogram, how many values it has.
func value(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || m.GetLabel()[0].GetValue() != "calls" {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestPosition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1, 1), Window: 4, Runner: runner(endAll)})
		l := laneOf("api", 1)
		q.add(laneOf("api", 2), 5)
		q.add(l, 20)
		q.add(laneOf("other", 1), 5)
		for i, e := range q.disk.lanes[l] {
			if n, ok, err := q.Standing(t.Context(), e); n.Position != i+1 || !ok || err != nil {
				t.Errorf("entry %d: %+v, %v, %v", i+1, n, ok, err)
			}
		}
		unknown := []job.Entry{
			{Lane: l, ID: id(500), Order: 1},
			{Lane: laneOf("api", 3), ID: id(500), Order: 500},
			{Lane: laneOf("nobody", 3), ID: id(500), Order: 500},
		}
		for _, e := range unknown {
			if n, ok, err := q.Standing(t.Context(), e); ok || err != nil {
				t.Errorf("unknown work: %+v, %v, %v", n, ok, err)
			}
			if q.Withdraw(e) {
				t.Errorf("unknown work is withdrawn: %v", e)
			}
			q.Gone(laneOf("nobody", 3), e.ID)
		}
	})
}

func TestPositionFarBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := newRig(Config{Settings: settings(1, 1), Window: 4, Runner: runner(endAll)})
		l := laneOf("api", 1)
		q.add(l, MaxPosition+50)
		for _, i := range []int{MaxPosition - 1, MaxPosition, MaxPosition + 1, MaxPosition + 50} {
			if n, ok, err := q.Standing(t.Context(), q.disk.lanes[l][i-1]); n.Position != min(i, MaxPosition) || !ok || err != nil {
				t.Errorf("entry %d: %+v, %v, %v", i, n, ok, err)
			}
		}
	})
}

func TestPositionWithoutADisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lost := errors.New("no disk")
		q := New(Config{Settings: settings(1, 1), Window: 1, Backlog: broken{lost}, Runner: runner(endAll)})
		r := rig{Queue: q, disk: newDisk()}
		r.add(laneOf("api", 1), 3)
		e := r.disk.lanes[laneOf("api", 1)]
		if n, ok, err := q.Standing(t.Context(), e[0]); n.Position != 1 || !ok || err != nil {
			t.Errorf("in memory: %+v, %v, %v", n, ok, err)
		}
		if _, ok, err := q.Standing(t.Context(), e[2]); ok || !errors.Is(err, lost) {
			t.Errorf("on disk: %v, %v", ok, err)
		}
	})
}

// broken is a Backlog that cannot be read.
type broken struct{ err error }

func (b broken) Lane(context.Context, job.Line, job.Lane, job.Order, int) ([]job.Entry, error) {
	return nil, b.err
}

func (b broken) Ahead(context.Context, job.Line, job.Lane, job.Order, job.Order, int) (int, error) {
	return 0, b.err
}
