package cluster

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ErrAlone is why the roster of a provider that has not run yet is unsettled.
var ErrAlone = errors.New("the node has not looked for the other members yet")

// Board holds the roster of a provider and wakes those who wait for the next one. It is the half of
// a View that is the same for all.
type Board struct {
	current atomic.Pointer[Roster]

	// mu makes an edit one step, and guards changed.
	mu      sync.Mutex
	changed chan struct{}
}

// NewBoard returns a board whose roster has nobody but the node itself, and is unsettled.
func NewBoard(self Member) *Board {
	b := &Board{changed: make(chan struct{})}
	b.current.Store(&Roster{Epoch: 1, Self: self, Members: []Member{self}, Unsettled: ErrAlone})
	return b
}

// Roster returns the roster as it was last edited.
func (b *Board) Roster() *Roster { return b.current.Load() }

// Changes returns a channel that is closed when the epoch has grown.
func (b *Board) Changes() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Edit lets f change a copy of the roster and makes that the roster. f may change Self, Members in any
// order, Left, Stale and Unsettled; it must not call the board. Of several members with one id the first stays,
// and Self comes before all.
func (b *Board) Edit(f func(r *Roster)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.current.Load()
	next := &Roster{Self: old.Self, Members: slices.Clone(old.Members), Left: old.Left, Stale: old.Stale, Unsettled: old.Unsettled}
	f(next)
	next.Members = tidy(next.Self, next.Members)
	next.Epoch = old.Epoch
	if !old.places(next) {
		next.Epoch++
		close(b.changed)
		b.changed = make(chan struct{})
	}
	b.current.Store(next)
}

// tidy returns the members in order of their ids, each once, with self as it is.
func tidy(self Member, members []Member) []Member {
	members = slices.Insert(members, 0, self)
	slices.SortStableFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(members, func(a, b Member) bool { return a.ID == b.ID })
}

// places reports whether both rosters place every tenant alike.
func (r *Roster) places(other *Roster) bool {
	return slices.EqualFunc(r.Members, other.Members, Member.sameButLoad) &&
		r.Self.sameButLoad(other.Self) && text(r.Unsettled) == text(other.Unsettled)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
