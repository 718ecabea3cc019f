package gossip_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
	"github.com/aquifer-fleet/aquifer/cluster/gossip/gossiptest"
)

func TestRunOnceAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.fleet(1)[0]
		if err := n.Run(t.Context()); !errors.Is(err, gossip.ErrRunning) {
			t.Errorf("a second Run returned %v", err)
		}
	})
}

func TestRunAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v, err := gossip.New(gossip.Config{Self: member("a", 1)}, gossip.Deps{Network: w.Host(netip.MustParseAddr("10.0.0.1"))})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- v.Run(ctx) }()
			within(t, time.Second, "it has settled", func() bool { return v.Roster().Unsettled == nil })
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if v.Roster().Unsettled == nil || len(v.Roster().Members) != 1 {
				t.Errorf("after its end: %+v", v.Roster())
			}
		}
	})
}

func TestAnnouncementsEndWithRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v, err := gossip.New(gossip.Config{Self: member("a", 1)}, gossip.Deps{Network: w.Host(netip.MustParseAddr("10.0.0.1"))})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if err := v.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			for i := range 20 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 50 * time.Microsecond)
					_ = v.Announce(t.Context(), cluster.Draining)
				})
			}
			all.Go(func() {
				time.Sleep(500 * time.Microsecond)
				stop()
			})
			all.Wait()
		}
	})
}

func TestRunThatIsOverBeforeItBegins(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		v, err := gossip.New(gossip.Config{Self: member("a", 1)}, gossip.Deps{Network: w.Host(netip.MustParseAddr("10.0.0.1"))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := v.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestAnnouncementsReachNobodyBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n, err := gossip.New(gossip.Config{Self: member("a", 1), Join: []string{"10.0.0.2"}}, gossip.Deps{Network: w.Host(netip.MustParseAddr("10.0.0.1"))})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Announce(t.Context(), cluster.Draining); !errors.Is(err, gossip.ErrNotRunning) {
			t.Error(err)
		}
		b := w.run(member("b", 2), func(c *gossip.Config) { c.Keys = nil })
		run(t, n)
		within(t, 10*time.Second, "it is told later", func() bool { m, _ := b.Roster().Member("a"); return m.State == cluster.Draining })
	})
}

func TestAnnouncementsWaitNoLongerThanTheirContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := nodes[0].Announce(ctx, cluster.Draining); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		within(t, 2*time.Second, "the others know all the same", func() bool {
			m, _ := nodes[1].Roster().Member(id(0))
			return m.State == cluster.Draining
		})
	})
}

// What the node calls is a machine that does not answer, and stays so.
func TestStopWaitsForNoCall(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.run(member("a", 1), func(c *gossip.Config) { c.Join = []string{"10.0.0.77", "10.0.0.78"} })
		w.Isolate(netip.MustParseAddr("10.0.0.77"))
		time.Sleep(5 * time.Second)
		start := time.Now()
		w.end(n)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPortInUse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.fleet(1)[0]
		v, err := gossip.New(gossip.Config{Self: member("b", 1)}, gossip.Deps{Network: w.Host(n.at)})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Run(t.Context()); err == nil {
			t.Error("two nodes share a port")
		}
	})
}

// The real network, in real time: three nodes over UDP and TCP of the loopback.
func TestOverUDPAndTCP(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t, goleak.IgnoreCurrent()) })
	seed := freePort(t)
	var views []*gossip.View
	for i, bind := range []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(seed)), "127.0.0.1:0", "127.0.0.1:0"} {
		v, err := gossip.New(gossip.Config{
			Self: cluster.Member{ID: id(i), Address: "http://127.0.0.1:8080", State: cluster.Active},
			Bind: bind, Keys: [][]byte{key}, Join: []string{net.JoinHostPort("localhost", strconv.Itoa(seed))},
		}, gossip.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
		run(t, v)
	}
	limit := time.After(30 * time.Second)
	for _, v := range views {
		for {
			changed := v.Changes()
			if r := v.Roster(); r.Unsettled == nil && len(r.Members) == len(views) {
				break
			}
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("not in 30 s: %+v", v.Roster())
			}
		}
	}
	if err := views[1].Announce(t.Context(), cluster.Draining); err != nil {
		t.Error(err)
	}
}

// A port that was tried is free again; one that somebody has is not to be had.
func TestTry(t *testing.T) {
	bubble(t, func(t *testing.T, _ *world) {
		host := gossiptest.New(1).Host(netip.MustParseAddr("10.0.0.1"))
		for range 2 {
			if err := gossip.Try(host, ":7946"); err != nil {
				t.Error(err)
			}
		}
	})
	if err := gossip.Try(nil, "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, bad := range []string{l.Addr().String(), "somewhere:7946"} {
		if gossip.Try(nil, bad) == nil {
			t.Errorf("%s can be had", bad)
		}
	}
}

// freePort returns a port of the loopback interface that is free for TCP and UDP, and not one that the system gives to
// outgoing connections before a node has it.
func freePort(t *testing.T) int {
	t.Helper()
	const first, last, tries = 30_000, 32_768, 100
	for range tries {
		port := first + rand.IntN(last-first)
		if gossip.Try(nil, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) == nil {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}
