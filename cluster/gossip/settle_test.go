package gossip_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
)

func TestNobodyIsReadyBeforeAnotherMemberHasItIn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		late := w.run(member("late", 9), nil)
		for late.Roster().Unsettled != nil {
			time.Sleep(time.Millisecond)
		}
		for _, n := range nodes {
			if !n.sees("late") {
				t.Errorf("%s does not know a member that has settled", n.Roster().Self.ID)
			}
		}
		if !late.settledOn(append(nodes, late)...) {
			t.Errorf("it has settled on %+v", late.Roster().Members)
		}
	})
}

func TestNodeWithoutAddressesSettlesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.run(member("a", 1), func(c *gossip.Config) { c.Join = nil })
		if n.Roster().Unsettled == nil {
			t.Error("it has settled before it ran")
		}
		w.together(time.Second, n)
	})
}

func TestNodeThatFindsNobodyGoesOnAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.run(member("a", 1), func(c *gossip.Config) { c.Join = []string{"10.0.0.77"} })
		time.Sleep(8 * time.Second)
		if err := n.Roster().Unsettled; err == nil || !strings.Contains(err.Error(), "10.0.0.77:7946") {
			t.Errorf("it waits, and says %v", err)
		}
		w.together(5*time.Second, n)
		if !strings.Contains(n.log.String(), "goes on alone") {
			t.Error("nobody says so")
		}
	})
}

func TestNameThatAppearsLater(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.hide(true)
		a, b := w.run(member("a", 1), nil), w.run(member("b", 2), nil)
		w.together(15*time.Second, a)
		w.together(15*time.Second, b)
		w.hide(false)
		w.together(20*time.Second, a, b)
	})
}

func TestWrongKeyStaysAloneAndSaysSo(t *testing.T) {
	for name, keys := range map[string][][]byte{"another": {[]byte("0123456789abcdef")}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.fleet(2)
				before := epochs(nodes)
				n := w.run(member("stranger", 9), func(c *gossip.Config) { c.Keys = keys })
				time.Sleep(5 * time.Minute)
				err := n.Roster().Unsettled
				if !errors.Is(err, gossip.ErrRefused) || !strings.Contains(err.Error(), "another gossip key") {
					t.Errorf("it says %v", err)
				}
				if said := n.said("members refuse this node's gossip"); len(said) != 1 || !strings.Contains(said[0], "AQUIFER_CLUSTER_GOSSIP_KEY") {
					t.Errorf("its log says %q", said)
				}
				if len(n.Roster().Members) != 1 || epochs(nodes) != before {
					t.Errorf("%+v came in", n.Roster().Members)
				}
				if nodes[0].dropped(t, "undecryptable")+nodes[1].dropped(t, "undecryptable") == 0 {
					t.Error("nobody has counted it")
				}
				if lines := strings.Count(nodes[0].log.String(), "gossip was dropped"); lines > 40 {
					t.Errorf("%d lines of log", lines)
				}
			})
		})
	}
}

// A node that is refused says so each time that this begins, and when it ends.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(2)
		count := func(refused, admitted int) {
			t.Helper()
			if a, b := len(nodes[0].said("members refuse this node's gossip")), len(nodes[0].said("members refuse this node's gossip no more")); a != refused || b != admitted {
				t.Errorf("the log says %d times that it is refused and %d times that it is not, want %d and %d", a, b, refused, admitted)
			}
		}
		for i := range 3 {
			stranger := w.run(member("stranger", 9), func(c *gossip.Config) { c.Keys = nil })
			time.Sleep(5 * time.Minute)
			count(i+1, i)
			w.end(stranger)
			time.Sleep(time.Minute)
			count(i+1, i+1)
		}
	})
}

// Keys are changed without a stop: the new one is known everywhere before it encrypts anywhere.
func TestKeysRotate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		next := []byte("0123456789abcdef")
		nodes := w.fleet(3)
		for _, keys := range [][][]byte{{key, next}, {next, key}, {next}} {
			for i := range nodes {
				w.end(nodes[i])
				nodes[i] = w.run(member(id(i), i+1), func(c *gossip.Config) { c.Keys = keys })
				w.together(20*time.Second, nodes...)
			}
		}
		for _, n := range nodes {
			if d := n.dropped(t, "undecryptable"); d != 0 {
				t.Errorf("%v packets could not be read", d)
			}
		}
	})
}

func TestOtherRegionsAreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(2)
		var far []*node
		for i := range 2 {
			m := member("far-"+id(i), 40+i)
			m.Region = "ams"
			far = append(far, w.run(m, nil))
		}
		w.together(20*time.Second, far...)
		time.Sleep(time.Minute)
		w.together(0, far...)
		w.together(0, nodes...)
	})
}

func TestLoadIsToldAndPlacesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var load atomic.Int64
		load.Store(3)
		a := w.run(member("a", 1), func(c *gossip.Config) { c.Load = func() int { return int(load.Load()) } })
		b := w.run(member("b", 2), nil)
		w.together(20*time.Second, a, b)
		within(t, 10*time.Second, "the load is known", func() bool { m, _ := b.Roster().Member("a"); return m.ActiveTenants == 3 })
		before := b.Roster().Epoch
		load.Store(5000)
		within(t, 10*time.Second, "the new load is known", func() bool { m, _ := b.Roster().Member("a"); return m.ActiveTenants == 5000 })
		if b.Roster().Epoch != before {
			t.Error("a load has changed the epoch")
		}
	})
}

func TestNodeWithANameFindsItsOwnAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var known atomic.Bool
		n, err := gossip.New(gossip.Config{Self: cluster.Member{ID: "a", Address: "http://a.test:8080"}}, gossip.Deps{
			Network: w.Host(netip.MustParseAddr("10.0.0.1")),
			Resolve: func(_ context.Context, _ string) ([]netip.Addr, error) {
				if !known.Load() {
					return nil, errors.New("no such host")
				}
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, n)
		within(t, 3*time.Second, "it says what is missing", func() bool {
			err := n.Roster().Unsettled
			return err != nil && strings.Contains(err.Error(), "no such host")
		})
		known.Store(true)
		within(t, 3*time.Second, "it has settled", func() bool { return n.Roster().Unsettled == nil })
	})
}
