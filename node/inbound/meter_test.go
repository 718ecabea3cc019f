package inbound

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// run starts a meter in a bubble and ends it with the test.
func run(t *testing.T, c Config, backlog func() int) *Meter {
	t.Helper()
	m := NewMeter(c, backlog)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
	return m
}

func nothing() int { return 0 }

// after waits for a time and for what happens then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestViewOfTheStart(t *testing.T) {
	want := View{
		AdvertisedRPS: 160, PerCallerRPS: 160, ActiveCallers: 1, BenchmarkRPS: 400, ThresholdRPS: 400, LastAdjustment: "start",
	}
	if got := NewMeter(Config{}, nothing).View(); got != want {
		t.Errorf("got %+v", got)
	}
}

func TestMeterTellsEachCallerItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := run(t, Config{}, func() int { return 7 })
		for _, c := range []struct{ user, want string }{
			{"", "160.00"}, {"a", "160.00"}, {"b", "80.00"}, {"a", "80.00"}, {"c", "53.33"}, {"", "53.33"},
		} {
			if got := m.Advertise(c.user); got != c.want {
				t.Errorf("user %q is told %s, want %s", c.user, got, c.want)
			}
		}
		for range 150 {
			m.Inserted(1234567 * time.Nanosecond)
		}
		after(time.Second)
		want := View{
			AdvertisedRPS: 240, PerCallerRPS: 80, ActiveCallers: 3, InsertsPerSec: 150, P95InsertMS: 1.235, BaselineInsertMS: 1.235,
			BenchmarkRPS: 400, ThresholdRPS: 400, ServerBacklog: 7, Raises: 1, LastAdjustment: "raise",
		}
		if got := m.View(); got != want {
			t.Errorf("got %+v", got)
		}
		after(time.Second)
		want.InsertsPerSec, want.P95InsertMS, want.LastAdjustment = 0, 0, "hold"
		if got := m.View(); got != want {
			t.Errorf("a second without traffic: got %+v", got)
		}
	})
}

func TestCallersAreActiveForThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := run(t, Config{}, nothing)
		after(500 * time.Millisecond)
		m.Advertise("a")
		m.Advertise("b")
		after(2 * time.Second)
		m.Advertise("b")
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{time.Second, 2}, {time.Second, 1}, {time.Second, 1}, {time.Second, 1}} {
			if after(c.wait); m.View().ActiveCallers != c.want {
				t.Errorf("%d are active, want %d", m.View().ActiveCallers, c.want)
			}
		}
		if got := m.callers.active.Load(); got != 0 {
			t.Errorf("%d are remembered", got)
		}
	})
}

// Any number of users takes bounded memory, and nobody is told to stop.
func TestManyCallers(t *testing.T) {
	c := newCallers()
	for i := range 4 * maxCallers {
		c.see(strconv.Itoa(i))
	}
	if got := c.count(); got < maxCallers*9/10 || got > maxCallers {
		t.Errorf("%d are told apart", got)
	}
	for range activeTicks + 1 {
		c.tick()
	}
	if got := c.active.Load(); got != 0 || c.count() != 1 {
		t.Errorf("%d are left", got)
	}
	m := NewMeter(Config{}, nothing)
	for i := range maxCallers {
		m.Advertise(strconv.Itoa(i))
	}
	if got := m.Advertise("one more"); got != "0.01" || m.View().PerCallerRPS != 0.01 {
		t.Errorf("a caller is told %s", got)
	}
}

// Inserts are counted once each, and as many of their latencies are kept as there is room for.
func TestSamplesWhileTheyAreTaken(t *testing.T) {
	var s samples
	const writers, each = 4, 50_000
	var writing sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		writing.Go(func() {
			for range each {
				s.add(time.Duration(w))
			}
		})
	}
	total, taken := 0, make(chan struct{})
	go func() {
		defer close(taken)
		var buf []time.Duration
		for !done.Load() {
			n, latencies := s.take(buf[:0])
			if len(latencies) > maxSamples {
				t.Errorf("%d samples", len(latencies))
			}
			total, buf = total+n, latencies
		}
	}()
	writing.Wait()
	done.Store(true)
	<-taken
	if rest, _ := s.take(nil); total+rest != writers*each {
		t.Errorf("%d inserts, want %d", total+rest, writers*each)
	}
	for range 10 * maxSamples {
		s.add(time.Millisecond)
	}
	if n, latencies := s.take(nil); n != 10*maxSamples || len(latencies) != maxSamples {
		t.Errorf("%d inserts, %d samples", n, len(latencies))
	}
	if n, latencies := s.take(nil); n != 0 || len(latencies) != 0 {
		t.Errorf("taken twice: %d inserts, %d samples", n, len(latencies))
	}
}

// A clock that is too coarse for an insert says 0, which is a latency like others.
func TestSamplesOfACoarseClock(t *testing.T) {
	var s samples
	for range 100 {
		s.add(0)
	}
	if n, latencies := s.take(nil); n != 100 || len(latencies) != 100 {
		t.Errorf("%d inserts, %d samples", n, len(latencies))
	}
}

// Run returns when its context ends, also when that was before, and can start again.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(Config{}, nothing)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
			if err := m.Run(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}

func BenchmarkInserted(b *testing.B) {
	m := NewMeter(Config{}, nothing)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Inserted(time.Millisecond)
		}
	})
}

func BenchmarkAdvertise(b *testing.B) {
	for _, n := range []int{1, 64, 10_000} {
		b.Run(fmt.Sprint(n, "-users"), func(b *testing.B) {
			m := NewMeter(Config{}, nothing)
			users := make([]string, n)
			for i := range users {
				users[i] = fmt.Sprint("user-", i)
				m.Advertise(users[i])
			}
			m.tick(nil)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					m.Advertise(users[i%n])
				}
			})
		})
	}
}

func BenchmarkMeterTick(b *testing.B) {
	m := NewMeter(Config{}, nothing)
	var buf []time.Duration
	for i := range 10_000 {
		m.Advertise(strconv.Itoa(i))
	}
	for b.Loop() {
		for range maxSamples {
			m.Inserted(time.Millisecond)
		}
		buf = m.tick(buf)
	}
}
