package cluster_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

func TestStatus(t *testing.T) {
	f := clustertest.NewFleet(
		cluster.Member{ID: "node-0", Capacity: 7, ActiveTenants: 3, Region: "fra", Version: "1.2.3"}, cluster.Member{ID: "node-1"},
	)
	o := seen(f)
	o.Prune(t.Context(), "node-1", "ada")
	f.Unsettle("node-0", cluster.ErrAlone)
	for want, got := range map[string]cluster.Status{
		`{"self":{"id":"node-0","address":"http://node-0","region":"fra","state":"active","user_capacity":7,"active_users":3,"version":"1.2.3"},` +
			`"members":2,"nodes":[{"id":"node-0","address":"http://node-0","region":"fra","state":"active","user_capacity":7,"active_users":3,"version":"1.2.3"},` +
			`{"id":"node-1","address":"http://node-1","state":"active"}],"algorithm":"rendezvous","provider":"","state":"active","active_users":3,"user_capacity":7,` +
			`"unsettled":"the node has not looked for the other members yet","prune_ttl_seconds":30,"pruned_members":1,"pruned_ids":["node-1"],"coordination_failures":0}`: o.Status(),
	} {
		if text, err := json.Marshal(got); err != nil || string(text) != want {
			t.Errorf("got  %s, %v\nwant %s", text, err, want)
		}
	}
	placing := cluster.NewOwners(cluster.OwnersConfig{View: f.View("node-1"), Placement: &placed{}}).Status()
	if placing.Algorithm != "bounded-load-rendezvous" || placing.UserCapacity != cluster.DefaultCapacity {
		t.Errorf("%+v", placing)
	}
}

// Whatever happens meanwhile, an owner is one that was there at some time, and at the end all is as it
// is to one who has seen nothing else.
func TestOwnersWhileMembersComeAndGo(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(4)...)
	o := seen(f)
	done := make(chan struct{})
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := worker; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				got, err := o.Of(t.Context(), tenant(i%500), nil)
				if err != nil || got.Check() != nil || got.Local != (got.ID == "node-0") {
					t.Errorf("%+v, %v", got, err)
					return
				}
				o.Pruned()
				if i%50 == 0 {
					o.Prune(t.Context(), "node-2", "")
				}
				o.Heard("node-2")
			}
		})
	}
	for range 300 {
		f.Kill("node-1")
		f.Drain("node-3")
		f.Set(cluster.Member{ID: "node-1"})
		f.Set(cluster.Member{ID: "node-3", Capacity: 50})
	}
	close(done)
	all.Wait()
	o.Heard("node-2")
	for i := range 500 {
		if got, want := ownerOf(t, o, tenant(i)).ID, ownerOf(t, seen(f), tenant(i)).ID; got != want {
			t.Fatalf("%s: got %s, want %s", tenant(i), got, want)
		}
	}
}

// A view that goes on with what it knew says since when, and places as before.
func TestStatusOfAStaleView(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	o, v, since := seen(f), f.View("node-0"), time.UnixMilli(1764490000123)
	if got := o.Status().StaleSince; got != 0 {
		t.Errorf("stale since %d", got)
	}
	before := v.Roster().Epoch
	v.Edit(func(r *cluster.Roster) { r.Stale = since })
	v.Edit(func(r *cluster.Roster) { r.Self.ActiveTenants = 7 })
	if got := o.Status(); got.StaleSince != since.UnixMilli() || v.Roster().Epoch != before {
		t.Errorf("stale since %d, epoch %d after %d", got.StaleSince, v.Roster().Epoch, before)
	}
}
