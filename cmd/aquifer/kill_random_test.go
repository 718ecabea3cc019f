//go:build crashpoints

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

var (
	killsFlag = flag.Int("kills", 20, "processes that TestKL01_Random kills")
	seedFlag  = flag.Uint64("seed", 0, "of TestKL01_Random; 0 means any")
)

// TestKL01_Random kills the process at random moments, also while it starts, over alternating modes of
// one store, while clients submit every kind of work and some follow it.
func TestKL01_Random(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	l := newLives(t, t.TempDir(), fastTargets)
	c := l.client()
	shop := newShop(t, w, c, random)
	for n := range *killsFlag {
		setting := modes()[n%2].setting
		if random.IntN(4) == 0 {
			l.stillborn(time.Duration(random.IntN(60))*time.Millisecond, setting)
			continue
		}
		l.begin(setting)
		_ = pause(t.Context(), time.Duration(random.IntN(700))*time.Millisecond)
		l.kill()
	}
	l.begin()
	all := finish(t, l, w, c, shop.close(), *killsFlag)
	report := totals(all)
	t.Logf("kills %d, accepted %d, completed %d, given up after %d crashes %d, lost %d, crashed attempts %d, extra calls %d, extra deliveries %d, told by a stream alone %d",
		*killsFlag, report.accepted, report.completed, maxCrashes, report.givenUp, report.lost, report.crashed,
		report.calls, report.deliveries, report.skipped)
}

// stillborn starts a process and kills it after a while, wherever it is then.
func (l *lives) stillborn(after time.Duration, env ...string) {
	l.t.Helper()
	l.launch(env...)
	_ = pause(l.t.Context(), after)
	l.kill()
}

// shop is clients that want things done until it closes.
type shop struct {
	t         *testing.T
	world     *world
	client    *client.Client
	closing   chan struct{}
	customers sync.WaitGroup
	watchers  sync.WaitGroup

	mu     sync.Mutex // guards orders
	orders []*order
}

// work is the kinds of work: how the target behaves, how the receiver, and whether a stream follows.
func work() []struct {
	path, hook string
	watched    bool
} {
	return []struct {
		path, hook string
		watched    bool
	}{
		{"/fast", "/fast", false},
		{"/fast", "/flaky", false},
		{"/fast", "/slow", false},
		{"/slow", "/fast", false},
		{"/flaky", "/fast", false},
		{"/flaky", "/flaky", true},
		{"/fast", "/fast", true},
		{"/slow", "/fast", true},
	}
}

func newShop(t *testing.T, w *world, c *client.Client, random *rand.Rand) *shop {
	s := &shop{t: t, world: w, client: c, closing: make(chan struct{})}
	for n := range 6 {
		mine := rand.New(rand.NewPCG(random.Uint64(), 0))
		s.customers.Go(func() { s.customer(t.Context(), fmt.Sprint("customer", n), mine) })
	}
	return s
}

// customer submits one job after another.
func (s *shop) customer(ctx context.Context, name string, random *rand.Rand) {
	kinds := work()
	for n := 0; ; n++ {
		kind := kinds[random.IntN(len(kinds))]
		user := name
		if kind.path == "/flaky" || kind.hook == "/flaky" { // slows its tenant down, and so only itself
			user = fmt.Sprint(name, "-", n)
		}
		o := newOrder(s.world, user, fmt.Sprint("k", n), kind.path, kind.hook)
		s.mu.Lock()
		s.orders = append(s.orders, o)
		s.mu.Unlock()
		if err := o.place(ctx, s.client); err != nil {
			s.t.Errorf("%s of %s: %v", o.IdempotentKey, name, err)
			return
		}
		if kind.watched {
			s.watchers.Go(func() {
				if err := o.watch(ctx, s.client); err != nil {
					s.t.Errorf("stream of %s of %s: %v", o.IdempotentKey, name, err)
				}
			})
		}
		select {
		case <-s.closing:
			return
		case <-time.After(time.Duration(random.IntN(40)) * time.Millisecond):
		}
	}
}

// close waits until all orders are placed and all streams have ended, and returns the orders.
func (s *shop) close() []*order {
	close(s.closing)
	s.customers.Wait()
	s.watchers.Wait()
	return s.orders
}

// killTotals is what became of all jobs together.
type killTotals struct {
	accepted, completed, givenUp, lost, crashed, calls, deliveries, skipped int
}

func totals(all []*history) (n killTotals) {
	for _, h := range all {
		n.accepted += count(h.id != "")
		n.completed += count(h.job.Status == "completed")
		n.givenUp += count(h.givenUp())
		n.lost += count(h.lost())
		n.skipped += count(h.job.Webhook.State == "skipped")
		n.crashed += h.crashed()
		n.calls += h.extraCalls()
		n.deliveries += h.extraDeliveries()
	}
	return n
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
