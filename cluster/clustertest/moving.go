package clustertest

import (
	"errors"

	"github.com/aquifer-fleet/aquifer/cluster"
)

func draining(h *harness) {
	h.start(three()...)
	h.ok(h.views["c"].Announce(h.Context(), cluster.Draining))
	h.awaitMember("c", "drains", func(m cluster.Member, there bool) bool { return there && m.State == cluster.Draining })
	h.ok(h.views["c"].Announce(h.Context(), cluster.Active))
	h.awaitMember("c", "is active again", func(m cluster.Member, there bool) bool { return there && m.State == cluster.Active })
}

func leaving(h *harness) {
	h.start(three()...)
	h.cluster.Leave(h.T, "c")
	h.awaitGone("c")
	h.settled()
}

func killed(h *harness) {
	h.start(three()...)
	h.cluster.Kill(h.T, "c")
	h.awaitGone("c")
	h.settled()
}

func joins(h *harness) {
	h.start(three()...)
	m := member("d", 4)
	h.views[m.ID] = h.cluster.Start(h.T, m)
	h.settled()
	h.awaitLike(m)
}

// returns: a machine that was destroyed is made again with the same disk, so the same id, and another
// address.
func returns(h *harness) {
	h.start(three()...)
	h.cluster.Kill(h.T, "c")
	h.awaitGone("c")
	h.back("c", 9)
}

// returnsAtOnce: nobody has noticed yet that the member was gone.
func returnsAtOnce(h *harness) {
	h.start(three()...)
	h.cluster.Kill(h.T, "c")
	delete(h.views, "c")
	h.back("c", 3)
}

func (h *harness) back(id string, address int) {
	h.Helper()
	m := member(id, address)
	h.views[id] = h.cluster.Start(h.T, m)
	h.settled()
	h.awaitLike(m)
}

func duplicate(h *harness) {
	h.start(three()...)
	second := h.cluster.Start(h.T, member("c", 9))
	h.await(second, "the second node of an id stays unsettled and says why", func(r *cluster.Roster) bool {
		taken, ok := errors.AsType[*cluster.TakenError](r.Unsettled)
		return ok && taken.ID == "c" && taken.Address == member("c", 3).Address
	})
	h.settled()
	h.awaitMember("c", "is the first one", func(m cluster.Member, _ bool) bool { return m.Address == member("c", 3).Address })
}

// restart: all are killed and come back under other addresses, before or after anybody noticed.
func restart(h *harness) {
	h.start(three()...)
	for _, m := range three() {
		h.cluster.Kill(h.T, m.ID)
	}
	h.views = make(map[string]cluster.View)
	for i, m := range three() {
		again := member(m.ID, i+4)
		h.views[m.ID] = h.cluster.Start(h.T, again)
	}
	h.settled()
}
