package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

const learning = 10 * time.Second

// counted is one node of a fleet that counts who shares with it.
type counted struct {
	*clustertest.Fleet
	t       *testing.T
	sharers *cluster.Sharers

	mu   sync.Mutex // guards told
	told []int
}

// tell notes a number that was told.
func (c *counted) tell(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, n)
}

// heard are the numbers that were told.
func (c *counted) heard() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// counting plays a scene with node-0 of so many nodes, which has counted them.
func counting(t *testing.T, nodes int, scene func(c *counted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Fleet: clustertest.NewFleet(clustertest.Nodes(nodes)...), t: t}
		c.start(learning)
		c.after(learning, nodes)
		scene(c)
	})
}

// start begins to count.
func (c *counted) start(learning time.Duration) {
	owners := cluster.NewOwners(cluster.OwnersConfig{View: c.View("node-0")})
	c.sharers = cluster.NewSharers(cluster.SharersConfig{Owners: owners, Learning: learning, Registerer: prometheus.NewRegistry()})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.sharers.Run(ctx, c.tell) }()
	c.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	})
}

// after waits, and expects a number.
func (c *counted) after(wait time.Duration, want int) {
	c.t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	if n := c.sharers.Known(); n != want {
		c.t.Fatalf("%d share, want %d", n, want)
	}
	if told := c.heard(); len(told) > 0 && told[len(told)-1] != want {
		c.t.Fatalf("%v was told, want %d", told, want)
	}
}

func TestANewNodeHasNoNumberUntilTheOthersCountIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Fleet: clustertest.NewFleet(clustertest.Nodes(3)...), t: t}
		c.Unsettle("node-0", cluster.ErrAlone)
		c.start(learning)
		c.after(time.Hour, 0)
		c.Unsettle("node-0", nil)
		c.after(learning-time.Second, 0)
		c.Unsettle("node-0", errors.New("not after all"))
		c.after(time.Minute, 0)
		c.Unsettle("node-0", nil)
		c.after(learning-time.Second, 0)
		c.after(2*time.Second, 3)
		if told := c.heard(); len(told) != 1 {
			t.Errorf("%v was told", told)
		}
	})
}

// Where all know all from the start, there is nothing to wait for.
func TestNothingToLearn(t *testing.T) {
	view, err := cluster.NewStatic(cluster.Member{ID: "a", Address: "http://a", State: cluster.Active},
		[]cluster.Member{{ID: "b", Address: "http://b"}, {ID: "c", Address: "http://c"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := cluster.NewSharers(cluster.SharersConfig{Owners: cluster.NewOwners(cluster.OwnersConfig{View: view})}).Known(); n != 3 {
		t.Errorf("%d share", n)
	}
}

func TestWhoComesAndLeavesCountsAtOnce(t *testing.T) {
	counting(t, 3, func(c *counted) {
		c.Set(cluster.Member{ID: "node-3"})
		c.after(0, 4)
		c.Drain("node-3")
		c.after(time.Hour, 4) // it may still be at work
		c.Kill("node-3")
		c.after(0, 3)
		c.Set(cluster.Member{ID: "node-3"})
		c.after(0, 4)
		c.Leave("node-3")
		c.after(0, 3)
	})
}

// Who goes without a word may be cut off.
func TestWhoIsGoneWithoutAWordCountsForTenMinutes(t *testing.T) {
	counting(t, 3, func(c *counted) {
		c.Kill("node-2")
		c.after(10*time.Minute, 3)
		c.Set(cluster.Member{ID: "node-2"})
		c.after(time.Hour, 3)
		c.Kill("node-2")
		c.after(10*time.Minute, 3)
		c.after(time.Minute, 2) // it was looked for first
		c.Set(cluster.Member{ID: "node-2"})
		c.after(0, 3)
	})
}

// A node that loses half of all, or more, at one time may be the one that is cut off.
func TestTheSmallerSideOfACutKeepsItsNumber(t *testing.T) {
	counting(t, 5, func(c *counted) {
		for _, id := range []string{"node-1", "node-2", "node-3"} {
			c.Hide("node-0", id)
		}
		c.after(20*time.Hour, 5)
		c.Reveal("node-0", "node-1")
		c.after(0, 3) // with node-4 it is more than half again, and the others have been gone for long
		c.Hide("node-0", "node-1")
		c.Hide("node-0", "node-4")
		c.after(time.Hour, 5)
		c.after(25*time.Hour, 1) // for ever is too long
	})
}

// Machines that die one after another, each replaced by one of another id, are no cut, however many they are in a day.
func TestThoseWhoDieOneAfterAnotherDoNotAddUp(t *testing.T) {
	counting(t, 3, func(c *counted) {
		for i := range 20 {
			c.Kill(fmt.Sprint("node-", i+1))
			c.Set(cluster.Member{ID: fmt.Sprint("node-", i+3)})
			c.after(0, 4)
			c.after(11*time.Minute, 3)
		}
		c.Kill("node-21")
		c.after(11*time.Minute, 2)
		c.Kill("node-22")
		c.after(11*time.Minute, 2) // half of all
	})
}

// The last number stays while the view is not to be relied on, except that it may grow.
func TestAViewThatIsLostLetsNoShareGrow(t *testing.T) {
	counting(t, 4, func(c *counted) {
		c.Unsettle("node-0", errors.New("valkey has not answered"))
		c.after(time.Hour, 4)
		c.Leave("node-1")
		c.after(time.Hour, 4)
		c.Set(cluster.Member{ID: "node-4"})
		c.Set(cluster.Member{ID: "node-5"})
		c.after(0, 5)
		c.Leave("node-4")
		c.after(time.Hour, 5)
		c.Unsettle("node-0", nil)
		c.after(0, 4)
		c.View("node-0").Edit(func(r *cluster.Roster) { r.Stale = time.Now() })
		c.View("node-0").Edit(func(r *cluster.Roster) { r.Members = r.Members[:1] })
		c.after(26*time.Hour, 4)
		c.View("node-0").Edit(func(r *cluster.Roster) { r.Stale = time.Time{} })
		c.after(time.Second, 1)
	})
}
