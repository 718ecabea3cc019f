package events_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const wait = 2 * time.Second

func newHub(buffer int) *events.Hub { return events.New(events.Config{Wait: wait, Buffer: buffer}) }

// drain takes what is there for a listener until it would have to wait.
func drain(t *testing.T, next func(context.Context) (events.Event, error)) (list []events.Event, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		e, err := next(ctx)
		if errors.Is(err, context.Canceled) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

func wantDrained(t *testing.T, s *events.Subscription, want string, wantErr error) {
	t.Helper()
	list, err := drain(t, s.Next)
	if !errors.Is(err, wantErr) {
		t.Errorf("error %v, want %v", err, wantErr)
	}
	wantRow(t, list, want)
}

func TestEachListenerHearsOfItsJobOnly(t *testing.T) {
	h := newHub(8)
	first, second, other := h.Subscribe(testID), h.Subscribe(testID), h.Subscribe(job.ID{0: 2, 15: 7})
	l := newLife()
	h.Publish(testID, l.begin())
	h.Publish(testID, l.retry())
	second.Close()
	h.Publish(testID, l.begin())
	h.End(canceled(t), testID, l.complete(""))

	wantDrained(t, first, "2 dispatching, 3 retrying, 4 dispatching, 6 completed", io.EOF)
	wantDrained(t, second, "", events.ErrClosed)
	wantDrained(t, other, "", nil)
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestListening(t *testing.T) {
	h := newHub(8)
	neighbour := job.ID{0: 9, 15: 7} // shares the shard
	if h.Listening(testID) {
		t.Error("somebody listens before anybody came")
	}
	s := h.Subscribe(testID)
	if !h.Listening(testID) || h.Listening(neighbour) {
		t.Error("listening is not about the job")
	}
	again := h.Subscribe(testID)
	s.Close()
	s.Close()
	if !h.Listening(testID) {
		t.Error("the second listener was forgotten")
	}
	again.Close()
	if h.Listening(testID) {
		t.Error("somebody listens after all have left")
	}
}

func TestSlowListenerLosesProgressButNeverTheEnd(t *testing.T) {
	h := newHub(2)
	s := h.Subscribe(testID)
	defer s.Close()
	l := newLife()
	for range 3 {
		h.Publish(testID, l.begin())
		h.Publish(testID, l.retry())
	}
	h.Publish(testID, l.position(1))
	l.begin()
	h.End(canceled(t), testID, l.complete(""))

	list, err := drain(t, s.Next)
	if !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want the end", err)
	}
	wantRow(t, list, "6 gap, 7 retrying, 10 completed")
	if got := list[0].Data; got != (events.GapData{Oldest: 7, Reason: events.GapSlowReader}) {
		t.Errorf("gap says %+v", got)
	}
}

func TestOnlyTheLatestPositionWaits(t *testing.T) {
	h := newHub(4)
	s := h.Subscribe(testID)
	defer s.Close()
	l := newLife()
	for n := range 10 {
		h.Publish(testID, l.position(10-n))
	}
	list, _ := drain(t, s.Next)
	wantRow(t, list, "1 position")
	if got := list[0].Data.(events.PositionData).Position; got != 1 {
		t.Errorf("position %d is not the latest", got)
	}

	h.Publish(testID, l.position(1))
	h.Publish(testID, l.begin())
	wantDrained(t, s, "2 dispatching", nil) // the position is over
}

func TestCloseWakesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(8)
		s := h.Subscribe(testID)
		go func() {
			time.Sleep(time.Second)
			s.Close()
		}()
		if _, err := s.Next(t.Context()); !errors.Is(err, events.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	})
}

func TestGaugeReturnsToZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := events.New(events.Config{Wait: wait, Buffer: 1, Registerer: reg})
	var subs []*events.Subscription
	for i := range 10 {
		subs = append(subs, h.Subscribe(job.ID{15: byte(i % 3)}))
	}
	l := newLife()
	h.Publish(job.ID{}, l.begin())
	h.Publish(job.ID{}, l.retry())
	h.End(canceled(t), job.ID{}, l.drop())
	want := map[string]float64{"aquifer_event_subscriptions": 10, "aquifer_events_dropped_total": 8}
	wantMetrics(t, reg, want)
	for _, s := range subs {
		s.Close()
		s.Close()
	}
	want["aquifer_event_subscriptions"] = 0
	wantMetrics(t, reg, want)
}

func wantMetrics(t *testing.T, reg *prometheus.Registry, want map[string]float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		m := f.GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want[f.GetName()] {
			t.Errorf("%s is %v, want %v", f.GetName(), got, want[f.GetName()])
		}
	}
	if len(families) != len(want) {
		t.Errorf("%d metrics, want %d", len(families), len(want))
	}
}

// Everybody at once: run it with the race detector.
func TestManyListenersAndPublishers(t *testing.T) {
	h := events.New(events.Config{Wait: time.Millisecond, Buffer: 4})
	var all sync.WaitGroup
	for i := range 64 {
		id := job.ID{15: byte(i)}
		for range 4 {
			s := h.Subscribe(id)
			all.Go(func() {
				defer s.Close()
				for last := 0; ; {
					e, err := s.Next(t.Context())
					if err != nil {
						t.Errorf("job %d ended with %v", i, err)
						return
					}
					if e.Seq < last {
						t.Errorf("%d after %d", e.Seq, last)
					}
					last = e.Seq
					if e.Terminal() {
						s.Confirm()
						return
					}
				}
			})
		}
		all.Go(func() {
			l := newLife()
			for range 100 {
				h.Publish(id, l.begin())
				h.Publish(id, l.retry())
				h.Listening(id)
			}
			h.End(t.Context(), id, l.drop())
		})
	}
	all.Wait()
}

func BenchmarkPublish(b *testing.B) {
	e := events.Queued(testID)
	b.Run("nobody listens", func(b *testing.B) {
		h := newHub(8)
		for b.Loop() {
			h.Publish(testID, e)
		}
	})
	b.Run("somebody listens to each neighbour", func(b *testing.B) {
		h := newHub(8)
		for i := range 10_000 {
			defer h.Subscribe(job.ID{0: 9, 13: byte(i >> 8), 15: byte(i)}).Close()
		}
		for b.Loop() {
			h.Publish(testID, e)
		}
	})
	b.Run("in parallel", func(b *testing.B) {
		h := newHub(8)
		for i := range 256 {
			defer h.Subscribe(job.ID{0: 9, 15: byte(i)}).Close()
		}
		b.RunParallel(func(pb *testing.PB) {
			id := testID
			for pb.Next() {
				id[15]++
				h.Publish(id, e)
			}
		})
	})
	b.Run("one listens", func(b *testing.B) {
		h := newHub(8)
		defer h.Subscribe(testID).Close()
		for b.Loop() {
			h.Publish(testID, e)
		}
	})
}
