package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/registry"
)

func jitter(f float64) func(*registry.Config) {
	return func(c *registry.Config) { c.Jitter = func() float64 { return f } }
}

func every(d time.Duration) func(*registry.Config) {
	return func(c *registry.Config) { c.Interval = d }
}

func TestNewStartsNothing(t *testing.T) {
	rehearse(t, func(s *stage) {
		time.Sleep(time.Hour)
		if n := len(s.canalis.Pings()); n != 0 {
			s.Errorf("%d pings", n)
		}
	})
}

// A node is registered at once and stays so: in a day it does not lapse once.
func TestRegistrationDoesNotLapse(t *testing.T) {
	play(t, func(s *stage) {
		if !s.live() {
			s.Fatalf("registered %v", s.canalis.Instances())
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if !s.live() || s.canalis.Lapses() != 0 {
			s.Errorf("registered %v, lapsed %d times", s.canalis.Instances(), s.canalis.Lapses())
		}
		gaps := s.gaps(0)
		if low, high := slices.Min(gaps), slices.Max(gaps); low < 13500*time.Millisecond || high > 15*time.Second || low == high {
			s.Errorf("pinged every %v to %v", low, high)
		}
		s.counted(registry.Active, "ok", float64(len(gaps)+1))
		s.counted(registry.Active, "failed", 0)
		if s.log.count("\n") != 1 || s.log.count(`msg=registered state=active`) != 1 {
			s.Errorf("log: %s", &s.log.text)
		}
	})
}

// The body has the fields of the contract, in its order and as texts.
func TestPing(t *testing.T) {
	play(t, func(s *stage) {
		s.reg.Drain()
		synctest.Wait()
		s.stop()
		pings := s.canalis.Pings()
		if len(pings) != 3 {
			s.Fatalf("%d pings", len(pings))
		}
		for i, state := range []string{"active", "draining", "offline"} {
			want := `{"port":"7000","state":"` + state + `","reported_at":"2000-01-01T00:00:00Z"}`
			if p := pings[i]; p.Body != want || p.Header.Get("Content-Type") != "application/json" || p.Header.Get("User-Agent") != "aquifer" || p.Address != node {
				s.Errorf("ping %d from %s: %s %v", i, p.Address, p.Body, p.Header)
			}
		}
	})
}

func TestIntervalAndJitter(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		jitter   float64
		want     time.Duration
	}{
		{0, 0, 15 * time.Second},
		{0, 0.5, 14250 * time.Millisecond},
		{2 * time.Second, 0, 2 * time.Second},
		{time.Hour, 1, 54 * time.Minute},
	} {
		t.Run(fmt.Sprint(tt.interval, tt.jitter), func(t *testing.T) {
			play(t, func(s *stage) {
				time.Sleep(3*tt.want + time.Millisecond)
				synctest.Wait()
				if gaps := s.gaps(0); !slices.Equal(gaps, []time.Duration{tt.want, tt.want, tt.want}) {
					s.Errorf("pinged after %v", gaps)
				}
				if warned := s.log.count("level=WARN") == 1; warned != (tt.interval >= registry.Expiry) {
					s.Errorf("log: %s", &s.log.text)
				}
			}, every(tt.interval), jitter(tt.jitter))
		})
	}
}

// Draining is told at once, then as often as active was, and going offline once, at the end.
func TestDrain(t *testing.T) {
	play(t, func(s *stage) {
		time.Sleep(20 * time.Second)
		s.reg.Drain()
		s.reg.Drain()
		synctest.Wait()
		s.states(registry.Active, registry.Draining)
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := s.stop(); took != 0 {
			s.Errorf("stopping took %v", took)
		}
		s.states(registry.Active, registry.Draining, registry.Offline)
		s.counted(registry.Active, "ok", 2)
		s.counted(registry.Draining, "ok", 5)
		s.counted(registry.Offline, "ok", 1)
		time.Sleep(time.Hour)
		if n := len(s.canalis.Pings()); n != 8 {
			s.Errorf("%d pings", n)
		}
	}, jitter(0))
}

func TestStopWithoutDrain(t *testing.T) {
	play(t, func(s *stage) {
		s.stop()
		s.reg.Drain()
		s.states(registry.Active, registry.Offline)
	})
}

func TestDrainBeforeRun(t *testing.T) {
	rehearse(t, func(s *stage) {
		s.reg.Drain()
		s.run()
		synctest.Wait()
		s.states(registry.Draining)
	})
}

// Who was never registered has nothing to withdraw.
func TestRunAfterTheEnd(t *testing.T) {
	rehearse(t, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		if err := s.reg.Run(ctx); err != nil || len(s.canalis.Pings()) != 0 {
			s.Errorf("%v, %d pings", err, len(s.canalis.Pings()))
		}
	})
}

func TestRunTwice(t *testing.T) {
	play(t, func(s *stage) {
		for range 2 {
			if err := s.reg.Run(s.Context()); !errors.Is(err, registry.ErrStarted) {
				s.Errorf("run: %v", err)
			}
			s.stop()
		}
		s.states(registry.Active, registry.Offline)
	})
}

// Whatever is called at the same time, the states come in their order and everything ends.
func TestStartAndStopAtOnce(t *testing.T) {
	for i := range 50 {
		rehearse(t, func(s *stage) {
			ctx, cancel := context.WithCancel(s.Context())
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() { _ = s.reg.Run(ctx) })
			all.Go(func() { _ = s.reg.Run(ctx) })
			all.Go(s.reg.Drain)
			all.Go(s.reg.Drain)
			if i%2 == 0 {
				synctest.Wait()
			}
			cancel()
			all.Wait()
			order := []registry.State{registry.Active, registry.Draining, registry.Offline}
			states := s.canalis.States()
			if !slices.IsSortedFunc(states, func(a, b registry.State) int { return slices.Index(order, a) - slices.Index(order, b) }) {
				s.Errorf("told %v", states)
			}
		})
	}
}

// The host's clock is only reported: when it jumps, the pings come as before.
func TestClockOfTheNodeJumps(t *testing.T) {
	for _, jump := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		var mu sync.Mutex
		ahead := time.Duration(0)
		play(t, func(s *stage) {
			time.Sleep(20 * time.Second)
			mu.Lock()
			ahead = jump
			mu.Unlock()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if gaps := s.gaps(0); len(gaps) != 41 || slices.Max(gaps) != 15*time.Second || slices.Min(gaps) != 15*time.Second || !s.live() {
				s.Errorf("pinged after %v", gaps)
			}
			last := s.canalis.Pings()[41]
			want := `{"port":"7000","state":"active","reported_at":"` + last.At.Add(jump).UTC().Format(time.RFC3339) + `"}`
			if last.Body != want {
				s.Errorf("reported %s, want %s", last.Body, want)
			}
		}, jitter(0), func(c *registry.Config) {
			c.Now = func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return time.Now().Add(ahead)
			}
		})
	}
}

// A control plane that forgets everything knows the node again within an interval.
func TestClockOfTheControlPlaneJumps(t *testing.T) {
	play(t, func(s *stage) {
		time.Sleep(time.Minute)
		s.canalis.Forget()
		if s.live() {
			s.Fatal("the scene is not as meant")
		}
		time.Sleep(registry.DefaultInterval)
		synctest.Wait()
		if !s.live() {
			s.Error("not registered again")
		}
	})
}

// A node that comes back at its place is registered as the same.
func TestRestart(t *testing.T) {
	play(t, func(s *stage) {
		s.stop()
		s.reg = s.build(func(c *registry.Config) { c.Registerer = nil })
		s.run()
		synctest.Wait()
		if !s.live() {
			s.Errorf("registered %v", s.canalis.Instances())
		}
		s.states(registry.Active, registry.Offline, registry.Active)
	})
}

// Nodes that start in the same instant do not ping in the same instant for long.
func TestNodesPart(t *testing.T) {
	rehearse(t, func(s *stage) {
		const nodes = 40
		ctx, cancel := context.WithCancel(s.Context())
		var all sync.WaitGroup
		for i := range nodes {
			r := s.build(func(c *registry.Config) {
				c.Registerer, c.Transport = nil, s.net.transport(s.T, fmt.Sprint("10.0.1.", i))
			})
			all.Go(func() { _ = r.Run(ctx) })
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(s.canalis.Instances()); n != nodes || s.canalis.Lapses() != 0 {
			s.Errorf("%d nodes are registered, %d lapses", n, s.canalis.Lapses())
		}
		seconds := make(map[int64]int)
		pings := s.canalis.Pings()
		for _, p := range pings[len(pings)-nodes:] {
			seconds[p.At.Unix()]++
		}
		if len(seconds) < 8 {
			s.Errorf("the last pings came in %d seconds: %v", len(seconds), seconds)
		}
		cancel()
		all.Wait()
		if got := s.canalis.States(); got[len(got)-1] != registry.Offline {
			s.Errorf("told %v", got)
		}
	})
}
