package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// Fleet is a cluster in memory. Every member has a View, and what happens to one is in the rosters of
// all others when the method returns, unless it is hidden from them. It is safe for concurrent use.
//
// mu guards everything below it.
type Fleet struct {
	mu      sync.Mutex
	members map[string]cluster.Member
	left    []string
	views   map[string]*View // of those that were ever there; a killed one's stays as it is
	// unsettled and hidden are what a member's view is told apart from the truth.
	unsettled map[string]error
	hidden    map[[2]string]bool // of a view and a member
}

// View is what one member of a Fleet knows.
type View struct {
	*cluster.Board
	fleet *Fleet
	id    string
}

// NewFleet returns a fleet of these members. A member without a state is active, and one without an
// address is at http://<id>.
func NewFleet(members ...cluster.Member) *Fleet {
	f := &Fleet{
		members: make(map[string]cluster.Member), views: make(map[string]*View),
		unsettled: make(map[string]error), hidden: make(map[[2]string]bool),
	}
	for _, m := range members {
		f.Set(m)
	}
	return f
}

// Nodes returns n members without any particulars: node-0, node-1 and so on.
func Nodes(n int) []cluster.Member {
	list := make([]cluster.Member, n)
	for i := range list {
		list[i] = cluster.Member{ID: fmt.Sprintf("node-%d", i)}
	}
	return list
}

// View returns what the member of that id knows. It panics if there never was one.
func (f *Fleet) View(id string) *View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.views[id]
	if v == nil {
		panic("no member was ever called " + id)
	}
	return v
}

// Set adds a member, or gives the one of its id other particulars.
func (f *Fleet) Set(m cluster.Member) {
	m.State = cmp.Or(m.State, cluster.Active)
	m.Address = cmp.Or(m.Address, "http://"+m.ID)
	f.change(func() {
		f.members[m.ID] = m
		f.left = slices.DeleteFunc(f.left, func(id string) bool { return id == m.ID })
		if f.views[m.ID] == nil {
			f.views[m.ID] = &View{Board: cluster.NewBoard(m), fleet: f, id: m.ID}
		}
	})
}

// Drain makes a member one that owns nothing new.
func (f *Fleet) Drain(id string) { f.announce(id, cluster.Draining) }

// Kill takes a member out of the rosters of all others. Its own View stays as it is.
func (f *Fleet) Kill(id string) { f.change(func() { delete(f.members, id) }) }

// Leave takes a member out of the rosters of all others, with a word.
func (f *Fleet) Leave(id string) {
	f.change(func() {
		delete(f.members, id)
		f.left = append(f.left, id)
	})
}

// Unsettle makes the roster of one member unsettled; a nil error settles it again.
func (f *Fleet) Unsettle(id string, err error) { f.change(func() { f.unsettled[id] = err }) }

// Hide makes one member's view not see another member; Reveal is its opposite.
func (f *Fleet) Hide(from, id string) { f.change(func() { f.hidden[[2]string{from, id}] = true }) }

// Reveal ends Hide.
func (f *Fleet) Reveal(from, id string) { f.change(func() { delete(f.hidden, [2]string{from, id}) }) }

// Announce makes s the state of the view's member, for all.
func (v *View) Announce(ctx context.Context, s cluster.State) error {
	v.fleet.announce(v.id, s)
	return ctx.Err()
}

func (f *Fleet) announce(id string, s cluster.State) {
	f.change(func() {
		m, alive := f.members[id]
		if !alive {
			f.views[id].Edit(func(r *cluster.Roster) { r.Self.State = s })
			return
		}
		m.State = s
		f.members[id] = m
	})
}

// change makes one step of the fleet, and shows it to the views of those who are there.
func (f *Fleet) change(step func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step()
	for id, self := range f.members {
		seen := slices.DeleteFunc(slices.Collect(maps.Values(f.members)), func(m cluster.Member) bool {
			return f.hidden[[2]string{id, m.ID}]
		})
		f.views[id].Edit(func(r *cluster.Roster) {
			r.Self, r.Members, r.Left, r.Unsettled = self, seen, slices.Clone(f.left), f.unsettled[id]
		})
	}
}
