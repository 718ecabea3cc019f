package cluster_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/clustertest"
)

// seen are the owners as node-0 of a fleet sees them.
func seen(f *clustertest.Fleet) *cluster.Owners {
	return cluster.NewOwners(cluster.OwnersConfig{View: f.View("node-0")})
}

func ownerOf(t *testing.T, o *cluster.Owners, key string, tried ...string) cluster.Owner {
	t.Helper()
	got, err := o.Of(t.Context(), key, tried)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOwnerIsTheFirstOfTheRanking(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(5)...)
	o, members := seen(f), f.View("node-0").Roster().Members
	for range 2 { // computed, and remembered
		for i := range 200 {
			ranked := cluster.Rank(members, tenant(i))
			for n := range ranked {
				got := ownerOf(t, o, tenant(i), ids(ranked[:n])...)
				if got.Member != ranked[n] || got.Local != (got.ID == "node-0") {
					t.Fatalf("%s after %d tries: got %+v, want %+v", tenant(i), n, got, ranked[n])
				}
			}
			if _, err := o.Of(t.Context(), tenant(i), ids(ranked)); !errors.Is(err, cluster.ErrNobody) {
				t.Fatalf("all were tried: %v", err)
			}
		}
	}
}

func TestOwnerOfNoKeyIsTheNodeItself(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	f.Unsettle("node-0", cluster.ErrAlone)
	if got := ownerOf(t, seen(f), ""); !got.Local || got.ID != "node-0" {
		t.Errorf("got %+v", got)
	}
}

// Others that drain, or of which nothing is known, own nothing; one that is only passed over may.
func TestWhetherThereAreOthers(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	o := seen(f)
	others := func(want bool, when string) {
		t.Helper()
		if o.Others() != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	f.Drain("node-0")
	o.Prune(t.Context(), "node-1", "")
	o.Prune(t.Context(), "node-2", "")
	others(true, "two are passed over")
	f.Drain("node-1")
	f.Unsettle("node-0", cluster.ErrAlone)
	others(false, "nothing is known")
	f.Unsettle("node-0", nil)
	others(true, "one is active")
	f.Drain("node-2")
	others(false, "all drain")
}

func TestUnsettledNodesDoNotGuess(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	f.Unsettle("node-0", cluster.ErrAlone)
	_, err := seen(f).Of(t.Context(), "ada", nil)
	if _, ok := errors.AsType[*cluster.UnsettledError](err); !ok || !errors.Is(err, cluster.ErrAlone) {
		t.Errorf("got %v", err)
	}
}

func TestDrainingMembersOwnNothing(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	o := seen(f)
	before := make(map[int]string)
	for i := range 300 {
		before[i] = ownerOf(t, o, tenant(i)).ID
	}
	f.Drain("node-0") // the node that decides
	for i := range 300 {
		got := ownerOf(t, o, tenant(i)).ID
		if got == "node-0" || before[i] != "node-0" && got != before[i] {
			t.Fatalf("%s went from %s to %s", tenant(i), before[i], got)
		}
	}
	f.Drain("node-1")
	f.Drain("node-2")
	if _, err := o.Of(t.Context(), "ada", nil); !errors.Is(err, cluster.ErrNobody) {
		t.Errorf("all drain: %v", err)
	}
}

// of returns a key that the member owns while all are there.
func keyOf(t testing.TB, v cluster.View, owner string) string {
	t.Helper()
	for i := range 10_000 {
		if cluster.Rank(v.Roster().Members, tenant(i))[0].ID == owner {
			return tenant(i)
		}
	}
	t.Fatalf("%s owns nothing", owner)
	return ""
}

func TestPrunedMembersArePassedOverForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clustertest.NewFleet(clustertest.Nodes(3)...)
		o := seen(f)
		key := keyOf(t, f.View("node-0"), "node-1")
		o.Prune(t.Context(), "node-1", key)
		if got := ownerOf(t, o, key).ID; got == "node-1" || !slices.Equal(o.Pruned(), []string{"node-1"}) {
			t.Errorf("the owner is %s, pruned are %v", got, o.Pruned())
		}
		time.Sleep(30*time.Second - 1)
		if got := ownerOf(t, o, key).ID; got == "node-1" {
			t.Error("the time is over too soon")
		}
		time.Sleep(time.Nanosecond)
		if got := ownerOf(t, o, key).ID; got != "node-1" || len(o.Pruned()) != 0 {
			t.Errorf("the owner is %s, pruned are %v", got, o.Pruned())
		}
	})
}

func TestSignsOfLifeEndAPrune(t *testing.T) {
	for name, sign := range map[string]func(*clustertest.Fleet, *cluster.Owners){
		"heard": func(_ *clustertest.Fleet, o *cluster.Owners) { o.Heard("node-1") },
		"another address": func(f *clustertest.Fleet, _ *cluster.Owners) {
			f.Set(cluster.Member{ID: "node-1", Address: "http://new"})
		},
		"another version, as it is": func(f *clustertest.Fleet, _ *cluster.Owners) { f.Set(cluster.Member{ID: "node-1", Version: "2"}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := clustertest.NewFleet(clustertest.Nodes(3)...)
			o := seen(f)
			key := keyOf(t, f.View("node-0"), "node-1")
			o.Prune(t.Context(), "node-1", key)
			o.Prune(t.Context(), "nobody", key)
			f.Set(cluster.Member{ID: "node-1", ActiveTenants: 7})
			if got := ownerOf(t, o, key).ID; got == "node-1" {
				t.Error("a load is no sign of life")
			}
			sign(f, o)
			if got := ownerOf(t, o, key).ID; got != "node-1" {
				t.Errorf("the owner is %s", got)
			}
		})
	}
}

func TestAPrunedMemberIsBetterThanNone(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(2)...)
	f.Drain("node-0")
	o := seen(f)
	o.Prune(t.Context(), "node-1", "ada")
	if got := ownerOf(t, o, "ada").ID; got != "node-1" {
		t.Errorf("the owner is %s", got)
	}
}

func TestOwnersFollowTheView(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(4)...)
	o := seen(f)
	check := func() {
		t.Helper()
		for i := range 300 {
			got, want := ownerOf(t, o, tenant(i)).Member, cluster.Rank(f.View("node-0").Roster().Members, tenant(i))[0]
			if want.ActiveTenants = got.ActiveTenants; got != want {
				t.Fatalf("%s: got %+v, want %+v", tenant(i), got, want)
			}
		}
	}
	check()
	for _, step := range []func(){
		func() { f.Drain("node-2") },
		func() { f.Kill("node-2") },
		func() { f.Drain("node-3") },
		func() { f.Set(cluster.Member{ID: "node-2", Address: "http://elsewhere"}) },
		func() { f.Set(cluster.Member{ID: "node-1", Capacity: 300}) },
		func() { f.Set(cluster.Member{ID: "node-1", Capacity: 300, ActiveTenants: 9}) },
	} {
		step()
		check()
	}
}

// A member that has gone without a word stays the owner of its tenants until it was looked for.
func TestMissingMembersStayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := clustertest.NewFleet(clustertest.Nodes(3)...)
		o := seen(f)
		key := keyOf(t, f.View("node-0"), "node-1")
		check := func(when string, there bool) {
			t.Helper()
			if got := ownerOf(t, o, key).ID; (got == "node-1") != there {
				t.Errorf("%s: the owner is %s", when, got)
			}
		}
		check("before", true)
		f.Kill("node-1")
		check("just gone", true)
		time.Sleep(30*time.Second - 1)
		check("a little later", true)
		o.Heard("node-1")
		time.Sleep(30*time.Second - 1)
		check("a little after a sign of life", true)
		time.Sleep(time.Nanosecond)
		check("much later", false)

		f.Set(cluster.Member{ID: "node-1"})
		check("back", true)
		f.Kill("node-1")
		check("gone again", true)
		o.Prune(t.Context(), "node-1", key)
		check("found unreachable", false)
		time.Sleep(time.Minute)
		check("forgotten", false)

		f.Set(cluster.Member{ID: "node-1"})
		f.Drain("node-1")
		check("draining", false)
		f.Kill("node-1")
		check("gone after it drained", false)
	})
}

// What is remembered is bounded, and whatever is asked, the answer is the same.
func TestManyAndLongKeys(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	o := seen(f)
	for i := range 200_000 {
		ownerOf(t, o, tenant(i))
	}
	for i := range 200 {
		long := strings.Repeat(tenant(i), 100)
		for _, key := range []string{tenant(i), long, long} {
			if got, want := ownerOf(t, o, key).ID, cluster.Rank(f.View("node-0").Roster().Members, key)[0].ID; got != want {
				t.Fatalf("%.20s: got %s, want %s", key, got, want)
			}
		}
	}
}

// placed is a placement that is scripted, and keeps what it was asked.
type placed struct {
	owner    string
	then     string // the owner after that one is released; empty: still the same
	ranked   []string
	released []string
}

func (p *placed) Place(_ context.Context, _ string, rank func() []cluster.Member) (cluster.Member, bool) {
	p.ranked = ids(rank())
	return cluster.Member{ID: p.owner, Address: "http://" + p.owner}, p.owner != ""
}

func (p *placed) Release(_ context.Context, key, owner string) {
	p.released = append(p.released, key+" "+owner)
	p.owner = cmp.Or(p.then, p.owner)
}

func TestPlacementDecidesIfItCan(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	p := &placed{owner: "node-2"}
	o := cluster.NewOwners(cluster.OwnersConfig{View: f.View("node-0"), Placement: p})
	key := keyOf(t, f.View("node-0"), "node-1")
	ranked := ids(cluster.Rank(f.View("node-0").Roster().Members, key))
	if got := ownerOf(t, o, key); got.ID != "node-2" || got.Local || !slices.Equal(p.ranked, ranked) {
		t.Errorf("got %+v of %v", got, p.ranked)
	}
	if p.owner = "node-0"; !ownerOf(t, o, key).Local {
		t.Error("the node does not know itself")
	}
	o.Prune(t.Context(), "node-0", key)
	if want := []string{key + " node-0"}; !slices.Equal(p.released, want) {
		t.Errorf("released %q, want %q", p.released, want)
	}
	if got := ownerOf(t, o, key, "node-0").ID; got != "node-1" || slices.Contains(p.ranked, "node-0") {
		t.Errorf("the placement insists on who was tried: %s of %v", got, p.ranked)
	}
	if p.owner = ""; ownerOf(t, o, key).ID != "node-1" {
		t.Error("the first of the ranking stands in for no placement")
	}
}

// A placement names who has a tenant whoever was tried. Who succeeds that one has the tenant from then on, for all; and
// nothing is given up when nobody could.
func TestSuccessorOfWhoWasTried(t *testing.T) {
	f := clustertest.NewFleet(clustertest.Nodes(3)...)
	p := &placed{owner: "node-0"}
	o := cluster.NewOwners(cluster.OwnersConfig{View: f.View("node-0"), Placement: p})
	succeeds := func(want string, released int, tried ...string) {
		t.Helper()
		if got, err := o.Successor(t.Context(), "u", tried); err != nil || got.ID != want || len(p.released) != released {
			t.Errorf("without %q: %s, %v, and released was %q", tried, got.ID, err, p.released)
		}
	}
	succeeds("node-0", 0)
	succeeds("node-0", 0, "node-1")
	p.then = "node-2"
	succeeds("node-2", 1, "node-1", "node-0")
	succeeds("node-2", 1, "node-1", "node-0")
	if got := p.released[0]; got != "u node-0" {
		t.Errorf("released %s", got)
	}
	if _, err := o.Successor(t.Context(), "u", []string{"node-0", "node-1", "node-2"}); !errors.Is(err, cluster.ErrNobody) || len(p.released) != 1 {
		t.Errorf("without all: %v, and released was %q", err, p.released)
	}
	if out := o.Pruned(); len(out) != 0 {
		t.Errorf("%q are passed over", out)
	}
}
