package clustertest

import (
	"context"
	"slices"
	"strings"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func settles(h *harness) { h.start(three()...) }

func single(h *harness) { h.start(member("alone", 1)) }

func wellFormed(h *harness) {
	h.start(three()...)
	for id, v := range h.views {
		r := v.Roster()
		if !slices.IsSortedFunc(r.Members, func(a, b cluster.Member) int { return strings.Compare(a.ID, b.ID) }) {
			h.Errorf("%s: not in order of ids: %v", id, idsOf(r))
		}
		if self, ok := r.Member(id); !ok || self != r.Self || self.ID != id {
			h.Errorf("%s: is %+v to itself and %+v among the members", id, r.Self, self)
		}
		if !r.Stale.IsZero() {
			h.Errorf("%s: stale since %v, though nothing is amiss", id, r.Stale)
		}
		if _, ok := r.Member("nobody"); ok {
			h.Errorf("%s: has a member that is not there", id)
		}
		for _, m := range r.Members {
			if err := m.Check(); err != nil {
				h.Errorf("%s: %v", id, err)
			}
			if m.State != cluster.Active {
				h.Errorf("%s: %s is %q", id, m.ID, m.State)
			}
		}
	}
}

func immutable(h *harness) {
	h.start(three()...)
	v := h.views["a"]
	r := v.Roster()
	before := copyOf(r)
	h.ok(v.Announce(h.Context(), cluster.Draining))
	h.unchanged(before, r)
	if now := v.Roster(); now == r || now.Epoch <= r.Epoch {
		h.Errorf("a new state has the epoch %d after %d", now.Epoch, r.Epoch)
	}
}

func particulars(h *harness) {
	h.start(three()...)
	for _, m := range three() {
		if !h.provider.Fixed {
			h.awaitLike(m)
			continue
		}
		h.awaitMember(m.ID, "is where it is", func(got cluster.Member, there bool) bool { return there && got.Address == m.Address })
	}
}

func changes(h *harness) {
	h.start(three()...)
	v := h.views["a"]
	changed := v.Changes()
	select {
	case <-changed:
		h.Log("something else changed meanwhile")
		changed = v.Changes()
	default:
	}
	h.ok(v.Announce(h.Context(), cluster.Draining))
	select {
	case <-changed:
	default:
		h.Error("the channel of the time before a change is open after it")
	}
	// The same again is no change.
	epoch := v.Roster().Epoch
	h.ok(v.Announce(h.Context(), cluster.Draining))
	if now := v.Roster().Epoch; now != epoch {
		h.Errorf("nothing changed, and the epoch went from %d to %d", epoch, now)
	}
}

func announceAtHome(h *harness) {
	h.start(three()...)
	v := h.views["b"]
	for _, s := range []cluster.State{cluster.Draining, cluster.Active, cluster.Draining, cluster.Offline} {
		h.ok(v.Announce(h.Context(), s))
		r := v.Roster()
		if self, _ := r.Member("b"); r.Self.State != s || self.State != s {
			h.Errorf("the node announced %q, and is %q to itself, %q among the members", s, r.Self.State, self.State)
		}
	}
}

// announceToNobody: a caller that cannot wait gets its own state all the same.
func announceToNobody(h *harness) {
	h.start(three()...)
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	v := h.views["b"]
	_ = v.Announce(ctx, cluster.Draining)
	if got := v.Roster().Self.State; got != cluster.Draining {
		h.Errorf("the node is %q after it announced that it is draining", got)
	}
	if h.provider.Fixed {
		return
	}
	h.awaitMember("b", "drains", func(m cluster.Member, _ bool) bool { return m.State == cluster.Draining })
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}
