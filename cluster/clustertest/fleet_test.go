package clustertest_test

import (
	"context"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

func TestFleetConforms(t *testing.T) {
	clustertest.Conform(t, clustertest.Provider{Bubble: true, New: func(*testing.T, []cluster.Member) clustertest.Cluster {
		return world{clustertest.NewFleet(), make(map[string]cluster.Member)}
	}})
}

// world plays a Fleet as if it were a provider.
type world struct {
	*clustertest.Fleet
	alive map[string]cluster.Member
}

func (w world) Start(_ *testing.T, m cluster.Member) cluster.View {
	if other, taken := w.alive[m.ID]; taken {
		refused := refusal{cluster.NewBoard(m)}
		refused.Edit(func(r *cluster.Roster) { r.Unsettled = &cluster.TakenError{ID: m.ID, Address: other.Address} })
		return refused
	}
	w.alive[m.ID] = m
	w.Set(m)
	return w.View(m.ID)
}

func (w world) Leave(t *testing.T, id string) { w.Kill(t, id) }

func (w world) Kill(_ *testing.T, id string) {
	delete(w.alive, id)
	w.Fleet.Kill(id)
}

// refusal is the view of a node that is not let in.
type refusal struct{ *cluster.Board }

func (refusal) Announce(context.Context, cluster.State) error { return nil }

func TestHiddenMembersAreHiddenFromOne(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	f.Hide("node-0", "node-1")
	for id, want := range map[string]bool{"node-0": false, "node-1": true, "node-2": true} {
		if _, seen := f.View(id).Roster().Member("node-1"); seen != want {
			t.Errorf("%s sees node-1: %v", id, seen)
		}
	}
	f.Reveal("node-0", "node-1")
	if _, seen := f.View("node-0").Roster().Member("node-1"); !seen {
		t.Error("node-1 stays hidden")
	}
}

func TestUnsettledUntilSettled(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(2)...)
	f.Unsettle("node-0", cluster.ErrAlone)
	if f.View("node-0").Roster().Unsettled == nil || f.View("node-1").Roster().Unsettled != nil {
		t.Error("the wrong node is unsettled")
	}
	f.Unsettle("node-0", nil)
	if err := f.View("node-0").Roster().Unsettled; err != nil {
		t.Error(err)
	}
}

func TestKilledViewsStay(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(2)...)
	dead := f.View("node-1")
	f.Kill("node-1")
	f.Drain("node-0")
	if m, ok := dead.Roster().Member("node-0"); !ok || m.State != cluster.Active {
		t.Error("a dead node heard something")
	}
	f.Set(cluster.Member{ID: "node-1"})
	if m, _ := f.View("node-1").Roster().Member("node-0"); m.State != cluster.Draining {
		t.Error("a node that is back hears nothing")
	}
}
