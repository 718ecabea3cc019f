package admit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is what a gate reads.
type machine struct {
	mu      sync.Mutex
	now     admit.Readings
	noSpace bool
	samples int
}

func (m *machine) set(r admit.Readings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = r
}

func (m *machine) sampler() *admit.Sampler {
	return admit.NewSampler(admit.Sources{
		Usage: func() (int64, time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.samples++
			return m.now.DB, m.now.SyncLag
		},
		Space: func() (int64, int64, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.noSpace {
				return 0, 0, errors.New("no such volume")
			}
			return m.now.Free, m.now.Volume, nil
		},
		Memory: func() int64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.now.Memory
		},
	})
}

func seconds(err error) int {
	var f *fault.Error
	if !errors.As(err, &f) {
		return 0
	}
	return int(f.RetryAfter / time.Second)
}

func TestRefusalsInARowAskForMore(t *testing.T) {
	for name, c := range map[string]struct {
		first time.Duration
		want  []int
	}{
		"default":            {0, []int{5, 10, 20, 40, 60, 60}},
		"configured":         {7 * time.Second, []int{7, 14, 28, 56, 60, 60}},
		"longer than others": {90 * time.Second, []int{90, 90, 90}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				g := admit.New(admit.Config{Limits: admit.Limits{SyncLag: time.Second}, Sampler: m.sampler(), RetryAfter: c.first})
				for range 2 { // the second time after a pass
					if before := int(g.RetryAfter() / time.Second); before != c.want[0] {
						t.Errorf("says %d s before the first refusal", before)
					}
					m.set(admit.Readings{SyncLag: time.Minute})
					time.Sleep(admit.SampleAge)
					var got []int
					for range c.want {
						err := g.Admit(0)
						got = append(got, seconds(err))
						if now := int(g.RetryAfter() / time.Second); now != seconds(err) {
							t.Errorf("says %d s after a refusal with %d s", now, seconds(err))
						}
					}
					if !slices.Equal(got, c.want) {
						t.Errorf("got %v, want %v", got, c.want)
					}
					m.set(admit.Readings{})
					time.Sleep(admit.SampleAge)
					if err := g.Admit(0); err != nil {
						t.Errorf("refused with %v", err)
					}
				}
			})
		})
	}
}

// The error of a pass must be nil as an error, not a nil pointer in one.
func TestPassIsNil(t *testing.T) {
	g := admit.New(admit.Config{Sampler: (&machine{}).sampler()})
	if err := g.Admit(1); err != nil {
		t.Errorf("got %#v", err)
	}
}

func TestReadingsAreTakenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		s := m.sampler()
		for range 1000 {
			s.Read(time.Now())
			time.Sleep(time.Millisecond)
		}
		if m.samples != 4 {
			t.Errorf("%d samples in a second", m.samples)
		}
	})
}

// The size of the store may be one reading old, so new work counts until the reading after the next.
func TestNewWorkCountsUntilTheStoreShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&machine{}).sampler()
		s.Read(time.Now())
		s.Add(5)
		for _, want := range []int64{5, 5, 0} {
			if got := s.Read(time.Now()).Admitted; got != want {
				t.Errorf("counts %d, want %d", got, want)
			}
			time.Sleep(admit.SampleAge)
		}
	})
}

// What is given up when it does not count any more leaves no room that is not there.
func TestWhatIsGivenUpLateMakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&machine{}).sampler()
		s.Read(time.Now())
		s.Add(5)
		for range 2 {
			time.Sleep(admit.SampleAge)
			s.Read(time.Now())
		}
		s.Add(-5)
		if got := s.Read(time.Now()).Admitted; got != 0 {
			t.Errorf("counts %d", got)
		}
	})
}

func TestVolumeThatCannotBeMeasuredForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{noSpace: true}
		s := m.sampler()
		if r := s.Read(time.Now()); r.Volume != 0 {
			t.Errorf("read %+v", r)
		}
		m.noSpace, m.now = false, admit.Readings{Free: 5, Volume: 9}
		time.Sleep(admit.SampleAge)
		s.Read(time.Now())
		m.noSpace = true
		time.Sleep(admit.SampleAge)
		if r := s.Read(time.Now()); r.Free != 5 || r.Volume != 9 {
			t.Errorf("forgot the last measure: %+v", r)
		}
	})
}

// Who comes while another takes readings gets the last ones and does not wait.
func TestSlowSampleHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := time.Duration(0)
		s := admit.NewSampler(admit.Sources{
			Usage: func() (int64, time.Duration) {
				time.Sleep(slow)
				return 7, 0
			},
			Space: func() (int64, int64, error) { return 0, 0, nil },
		})
		s.Read(time.Now())
		time.Sleep(admit.SampleAge)
		slow = time.Minute
		var all sync.WaitGroup
		all.Go(func() { s.Read(time.Now()) })
		synctest.Wait()
		start := time.Now()
		if r := s.Read(start); r.DB != 7 || time.Since(start) != 0 {
			t.Errorf("read %+v after %v", r, time.Since(start))
		}
		all.Wait()
	})
}

func TestMemoryOfThisProcess(t *testing.T) {
	s := admit.NewSampler(admit.Sources{
		Usage: func() (int64, time.Duration) { return 0, 0 },
		Space: func() (int64, int64, error) { return 1, 2, nil },
	})
	r := s.Read(time.Now())
	if r.Memory < mb || r.Memory > 1<<40 {
		t.Errorf("holds %d bytes", r.Memory)
	}
}

// A volume that is filled by a burst refuses before it is full, goes on refusing, and opens by
// itself once there is room.
func TestDK01_BurstOnASmallVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const volume, body = 64 * mb, mb
		m := &machine{now: admit.Readings{Free: volume, Volume: volume}}
		g := admit.New(admit.Config{Limits: admit.Limits{DB: admit.Auto}, Sampler: m.sampler()})
		written := int64(0)
		var refused error
		for range 500 { // within less than one sample: the readings never see it
			if err := g.Admit(body); err != nil {
				refused = err
				continue
			}
			written += body
		}
		var f *fault.Error
		if !errors.As(refused, &f) || f.Limit.Reason != admit.DBSize {
			t.Fatalf("never refused: %v", refused)
		}
		if written > volume*8/10 || written < volume/2 {
			t.Errorf("admitted %d of %d bytes", written, volume)
		}

		m.set(admit.Readings{DB: written, Free: volume - written, Volume: volume})
		for range 10 {
			time.Sleep(admit.SampleAge)
			if g.Admit(body) == nil {
				m.set(admit.Readings{DB: m.now.DB + body, Free: m.now.Free - body, Volume: volume})
			}
		}
		if m.now.Free < volume/8 {
			t.Errorf("only %d bytes are left", m.now.Free)
		}

		m.set(admit.Readings{DB: mb, Free: volume - mb, Volume: volume})
		time.Sleep(admit.SampleAge)
		_ = g.Admit(0) // takes a reading, which still counts what was admitted just before it
		time.Sleep(admit.SampleAge)
		if err := g.Admit(body); err != nil {
			t.Errorf("still closed with an empty volume: %v", err)
		}
	})
}

// Bodies that are being read count on top of what the process needs, and have only a part of the memory.
func TestBodiesThatAreBeingReadCount(t *testing.T) {
	m := &machine{now: admit.Readings{Memory: 78 * mb}}
	g := admit.New(admit.Config{Limits: admit.Limits{Memory: 80 * mb}, Sampler: m.sampler()})
	if err := g.Reserve(3 * mb); err != nil {
		t.Fatal(err)
	}
	if err := g.Admit(0); !fault.Is(err, fault.Overloaded) {
		t.Errorf("got %v", err)
	}
	var f *fault.Error
	if err := g.Reserve(8 * mb); !errors.As(err, &f) || *f.Limit != (fault.Limit{Reason: admit.Memory, Limit: 10, Current: 11}) || f.RetryAfter == 0 {
		t.Errorf("got %+v", f)
	}
	if err := g.Reserve(7 * mb); err != nil {
		t.Errorf("up to the limit: %v", err)
	}
	if v := g.View(); v.MemoryReservedMB != 10 {
		t.Errorf("shows %+v", v)
	}
	g.Release(10 * mb)
	if err := g.Admit(0); err != nil {
		t.Errorf("refused with %v", err)
	}
	if v := g.View(); v.MemoryReservedMB != 0 {
		t.Errorf("shows %+v", v)
	}
	off := admit.New(admit.Config{Sampler: m.sampler()})
	if err := off.Reserve(1 << 40); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestView(t *testing.T) {
	m := &machine{now: admit.Readings{
		Memory: 20*mb + 5, DB: 1000, Free: 9 * gb, Volume: 100 * gb, SyncLag: 1500 * time.Microsecond,
	}}
	reg := prometheus.NewRegistry()
	g := admit.New(admit.Config{
		Limits:  admit.Limits{Memory: 700 * mb, DB: 5000, SyncLag: time.Millisecond},
		Sampler: m.sampler(), MaxBodyBytes: 77, Registerer: reg,
	})
	want := admit.View{
		MemoryMB: 20, MemoryLimitMB: 700, DBBytes: 1000, DBMaxBytes: 5000, MaxBodyBytes: 77, RetryAfterSeconds: 5, SyncLagMS: 1,
	}
	if got := g.View(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for range 3 {
		if err := g.Admit(0); !fault.Is(err, fault.Overloaded) {
			t.Errorf("got %v", err)
		}
	}
	if got := g.View().RetryAfterSeconds; got != 20 {
		t.Errorf("asks for %d s after three refusals", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range families[0].GetMetric() {
		reason := series.GetLabel()[0].GetValue()
		if got, want := series.GetCounter().GetValue(), map[string]float64{admit.SyncLag: 3}[reason]; got != want {
			t.Errorf("%v refusals for %s, want %v", got, reason, want)
		}
	}
}

// Many at once: run it with the race detector.
func TestGateUnderLoad(t *testing.T) {
	m := &machine{}
	g := admit.New(admit.Config{Limits: admit.Limits{Memory: mb, DB: admit.Auto, SyncLag: time.Second}, Sampler: m.sampler()})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				if g.Reserve(n) == nil {
					g.Release(n)
				}
				_ = g.Admit(n % 3)
				g.View()
				m.set(admit.Readings{SyncLag: time.Duration(i) * time.Second})
			}
		})
	}
	all.Wait()
	if got := g.View().MemoryReservedMB; got != 0 {
		t.Errorf("%d MB still reserved", got)
	}
}

func BenchmarkAdmit(b *testing.B) {
	m := &machine{now: admit.Readings{Memory: mb, DB: mb, Free: gb, Volume: 2 * gb}}
	sources := m.sampler()
	g := admit.New(admit.Config{Limits: admit.Limits{Memory: gb, DB: admit.Auto, SyncLag: time.Second}, Sampler: sources})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if g.Admit(0) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if g.Admit(0) != nil {
					b.Error("refused")
				}
			}
		})
	})
}
