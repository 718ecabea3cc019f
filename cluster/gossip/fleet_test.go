package gossip_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/gossip"
)

// promise is how soon a node that was killed must be out of everyone's view.
const promise = 5 * time.Second

// bubble runs a test in virtual time, with a world.
func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// member is one of host 10.0.0.<host>.
func member(id string, host int) cluster.Member {
	return cluster.Member{ID: id, Address: fmt.Sprintf("http://10.0.0.%d:8080", host), State: cluster.Active, Region: "fra", Version: "1.0.0"}
}

func id(i int) string { return fmt.Sprintf("node-%02d", i) }

// fleet runs n nodes and waits until all are settled on all.
func (w *world) fleet(n int) []*node {
	w.t.Helper()
	var nodes []*node
	for i := range n {
		nodes = append(nodes, w.run(member(id(i), i+1), nil))
	}
	w.together(20*time.Second, nodes...)
	return nodes
}

// together waits until the nodes have settled on each other and nobody else.
func (w *world) together(limit time.Duration, nodes ...*node) time.Duration {
	w.t.Helper()
	return within(w.t, limit, "all have settled on each other", func() bool {
		for _, n := range nodes {
			if !n.settledOn(nodes...) {
				return false
			}
		}
		return true
	})
}

func (n *node) settledOn(nodes ...*node) bool {
	r := n.Roster()
	if r.Unsettled != nil || len(r.Members) != len(nodes) {
		return false
	}
	for _, other := range nodes {
		if m, ok := r.Member(other.Roster().Self.ID); !ok || m.Address != other.Roster().Self.Address {
			return false
		}
	}
	return true
}

func (n *node) sees(id string) bool {
	_, there := n.Roster().Member(id)
	return there
}

func hosts(nodes []*node) []netip.Addr {
	var list []netip.Addr
	for _, n := range nodes {
		list = append(list, n.at)
	}
	return list
}

func TestKilledNodesAreOutOfAllViewsInTime(t *testing.T) {
	for n := 2; n <= 10; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.fleet(n)
				start := time.Now()
				w.kill(nodes[0])
				w.together(promise, nodes[1:]...)
				took := time.Since(start)
				t.Logf("out of all views after %v", took)
				if took > promise {
					t.Errorf("out of all views after %v", took)
				}
			})
		})
	}
}

func TestNodesThatDieTogetherAreOutOfAllViews(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(7)
		for _, n := range nodes[:3] {
			w.Isolate(n.at)
		}
		within(t, 4*promise, "the dead are gone", func() bool {
			return !slices.ContainsFunc(nodes[3:], func(n *node) bool { return n.sees(id(0)) || n.sees(id(1)) || n.sees(id(2)) })
		})
		w.together(promise, nodes[3:]...)
	})
}

func TestNodesThatLeaveAreGoneAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(5)
		start := time.Now()
		w.end(nodes[0])
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("leaving took %v", took)
		}
		if took := w.together(time.Second, nodes[1:]...); took > time.Second {
			t.Errorf("the others knew after %v", took)
		}
	})
}

func TestLeavingIsBoundedWhenNobodyHears(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		w.Isolate(nodes[0].at)
		start := time.Now()
		w.end(nodes[0])
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("leaving took %v", took)
		}
	})
}

func TestPartitionsHeal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(5)
		some, others := nodes[:2], nodes[2:]
		w.Part(hosts(some), hosts(others))
		w.together(4*promise, some...)
		w.together(4*promise, others...)
		// Longer than the dead are remembered.
		time.Sleep(5 * time.Minute)
		if !some[0].settledOn(some...) || !others[0].settledOn(others...) {
			t.Error("a half is not settled on itself")
		}
		w.Heal()
		t.Logf("together again after %v", w.together(30*time.Second, nodes...))
	})
}

// The addresses to join need not lead to the other side.
func TestPartitionsHealWithoutTheName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(4)
		w.hide(true)
		w.Part(hosts(nodes[:2]), hosts(nodes[2:]))
		w.together(4*promise, nodes[:2]...)
		time.Sleep(5 * time.Minute)
		w.Heal()
		w.together(30*time.Second, nodes...)
	})
}

// One way cut between two of five: the others vouch for both.
func TestOneWayCutBetweenTwoChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(5)
		before := epochs(nodes)
		w.Cut(nodes[0].at, nodes[1].at)
		time.Sleep(2 * time.Minute)
		if changed := epochs(nodes) - before; changed > 4 {
			t.Errorf("%d changes of rosters", changed)
		}
		w.Heal()
		w.together(30*time.Second, nodes...)
	})
}

// A node that hears nothing but is heard takes all others for dead and says so. They object at once.
func TestDeafNodesDoNotHarmTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(5)
		others := nodes[1:]
		for _, n := range others {
			w.Cut(n.at, nodes[0].at)
		}
		for range 120 {
			time.Sleep(time.Second)
			within(t, 500*time.Millisecond, "all others see each other", func() bool {
				for _, n := range others {
					if slices.ContainsFunc(others, func(other *node) bool { return !n.sees(other.Roster().Self.ID) }) {
						return false
					}
				}
				return true
			})
		}
		w.Heal()
		w.together(30*time.Second, nodes...)
	})
}

func epochs(nodes []*node) uint64 {
	var sum uint64
	for _, n := range nodes {
		sum += n.Roster().Epoch
	}
	return sum
}

func TestCL03PacketLossOnOneNode(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		before := epochs(nodes)
		w.Lose(nodes[0].at, 0.3)
		time.Sleep(time.Minute)
		w.Rejoin(nodes[0].at)
		w.together(30*time.Second, nodes...)
		// A member that is lost and comes back changes each of three rosters twice at most.
		changed := epochs(nodes) - before
		t.Logf("%d changes of rosters", changed)
		if changed > 12 {
			t.Errorf("%d changes of rosters", changed)
		}
	})
}

func TestRollingRestartAtOtherAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(4)
		for i := range nodes {
			w.end(nodes[i])
			nodes[i] = w.run(member(id(i), 20+i), nil)
			w.together(20*time.Second, nodes...)
		}
	})
}

func TestCL01MachineReturnsAtAnotherAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		before := nodes[1].Roster().Epoch
		w.kill(nodes[0])
		time.Sleep(5 * time.Second)
		nodes[0] = w.run(member(id(0), 9), nil)
		t.Logf("back after %v", w.together(15*time.Second, nodes...))
		if changed := nodes[1].Roster().Epoch - before; changed != 2 {
			t.Errorf("the roster changed %d times for one that went and came", changed)
		}
	})
}

// Nobody has noticed yet that the machine was gone.
func TestCL01MachineReturnsAtOnceAtAnotherAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		w.kill(nodes[0])
		nodes[0] = w.run(member(id(0), 9), nil)
		within(t, 3*time.Second, "it says who has its id", func() bool {
			taken, ok := errors.AsType[*cluster.TakenError](nodes[0].Roster().Unsettled)
			return ok && taken.Address == "http://10.0.0.1:8080"
		})
		w.together(20*time.Second, nodes...)
	})
}

func TestFullRestartAtOtherAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(5)
		for i := range nodes {
			w.kill(nodes[i])
		}
		for i := range nodes {
			// The list to join is of the old addresses but for one.
			nodes[i] = w.run(member(id(i), 30+i), func(c *gossip.Config) {
				c.Join = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3:7946", "10.0.0.4", "10.0.0.32"}
			})
		}
		w.together(20*time.Second, nodes...)
	})
}

// A process that stood still, as in SIGSTOP or a machine that was moved.
func TestNodeThatStoodStillReturns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(4)
		w.Delay(nodes[0].at, 20*time.Second)
		within(t, promise, "it is gone", func() bool { return !nodes[1].sees(id(0)) && !nodes[2].sees(id(0)) && !nodes[3].sees(id(0)) })
		time.Sleep(15 * time.Second)
		w.Delay(nodes[0].at, 0)
		w.together(time.Minute, nodes...)
	})
}

func TestDuplicateLeavesWithoutHarm(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		before := epochs(nodes)
		second := w.run(member(id(0), 9), nil)
		within(t, 10*time.Second, "the second one says so", func() bool {
			taken, ok := errors.AsType[*cluster.TakenError](second.Roster().Unsettled)
			return ok && taken.ID == id(0) && taken.Address == "http://10.0.0.1:8080"
		})
		time.Sleep(time.Minute)
		if second.Roster().Unsettled == nil {
			t.Error("the second one has settled")
		}
		w.end(second)
		time.Sleep(time.Minute)
		if now := epochs(nodes); now != before {
			t.Errorf("%d changes of rosters by a duplicate that came and went", now-before)
		}
	})
}

// The name may have another address of the node itself, where it then calls itself.
func TestDuplicateDoesNotLetItselfIn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(3)
		another, second := netip.MustParseAddr("10.0.0.90"), member(id(0), 9)
		w.Alias(another, netip.MustParseAddr("10.0.0.9"))
		n := w.run(second, func(c *gossip.Config) { c.Join = append(c.Join, another.String()) })
		for range 1200 {
			time.Sleep(50 * time.Millisecond)
			if n.Roster().Unsettled == nil {
				t.Fatal("the second one has settled")
			}
		}
		w.together(0, nodes...)
	})
}

// A copied configuration: the two are never ready together, one of them is after a while, and the other when it is left.
func TestTwoNewNodesOfOneID(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.run(member("a", 1), nil), w.run(member("b", 2), nil)
		one, two := w.run(member("same", 8), nil), w.run(member("same", 9), nil)
		for range 1200 {
			time.Sleep(50 * time.Millisecond)
			if one.Roster().Unsettled == nil && two.Roster().Unsettled == nil {
				t.Fatal("both have settled")
			}
		}
		if two.Roster().Unsettled == nil {
			one, two = two, one
		}
		w.together(time.Minute, a, b, one)
		if _, ok := errors.AsType[*cluster.TakenError](two.Roster().Unsettled); !ok {
			t.Errorf("the other one says %v", two.Roster().Unsettled)
		}
		w.kill(one)
		w.together(time.Minute, a, b, two)
	})
}

// Two nodes of one id that have both settled, each on its side of a broken network: the younger one steps aside.
func TestYoungerDuplicateStepsAside(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.fleet(2)
		younger := w.run(member(id(0), 9), func(c *gossip.Config) { c.Join = nil })
		third := w.run(member(id(2), 3), func(c *gossip.Config) { c.Join = []string{"10.0.0.9"} })
		w.Part(hosts(nodes), []netip.Addr{younger.at, third.at})
		w.together(20*time.Second, younger, third)
		w.Heal()
		within(t, time.Minute, "the younger one is aside", func() bool {
			_, ok := errors.AsType[*cluster.TakenError](younger.Roster().Unsettled)
			return ok
		})
		within(t, time.Minute, "the older one is in all views", func() bool {
			m, _ := third.Roster().Member(id(0))
			return m.Address == "http://10.0.0.1:8080" && nodes[0].settledOn(nodes[0], nodes[1], third)
		})
		time.Sleep(5 * time.Minute)
		if younger.Roster().Unsettled == nil || nodes[0].Roster().Unsettled != nil {
			t.Errorf("younger: %v, older: %v", younger.Roster().Unsettled, nodes[0].Roster().Unsettled)
		}
		if !strings.Contains(younger.log.String(), "steps aside") {
			t.Error("nobody says so")
		}
	})
}
