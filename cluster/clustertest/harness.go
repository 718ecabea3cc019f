package clustertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// patience bounds how long a test waits for what must happen.
const patience = time.Minute

// harness is one test with its cluster.
type harness struct {
	*testing.T
	provider Provider
	cluster  Cluster
	views    map[string]cluster.View
}

// three are members that differ in everything.
func three() []cluster.Member {
	return []cluster.Member{member("b", 1), member("a", 2), member("c", 3)}
}

func member(id string, n int) cluster.Member {
	return cluster.Member{
		ID: id, Address: fmt.Sprintf("http://127.0.0.%d:8080", n), Region: "fra", State: cluster.Active,
		Capacity: 100 * n, ActiveTenants: n, Version: fmt.Sprintf("1.%d.0", n),
	}
}

// start runs a cluster of these members and waits until all have settled on all.
func (h *harness) start(members ...cluster.Member) {
	h.Helper()
	h.cluster = h.provider.New(h.T, members)
	h.views = make(map[string]cluster.View)
	for _, m := range members {
		h.views[m.ID] = h.cluster.Start(h.T, m)
	}
	h.settled()
}

// settled waits until all views are settled on each other.
func (h *harness) settled() {
	h.Helper()
	var ids []string
	for id := range h.views {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for id, v := range h.views {
		h.await(v, fmt.Sprintf("%s settles on %v", id, ids), func(r *cluster.Roster) bool {
			return r.Unsettled == nil && slices.Equal(idsOf(r), ids)
		})
	}
}

// await waits until a view's roster is as it should be, and returns that roster.
func (h *harness) await(v cluster.View, what string, good func(*cluster.Roster) bool) *cluster.Roster {
	h.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		changed := v.Changes()
		r := v.Roster()
		if good(r) {
			return r
		}
		select {
		case <-changed:
		case <-limit.C:
			h.Fatalf("not in %v: %s; the roster is %+v", patience, what, *r)
		}
	}
}

// awaitMember waits until every view but the member's own sees the member as it should be.
func (h *harness) awaitMember(id, what string, good func(m cluster.Member, there bool) bool) {
	h.Helper()
	for other, v := range h.views {
		if other != id {
			h.await(v, fmt.Sprintf("%s sees that %s %s", other, id, what), func(r *cluster.Roster) bool { return good(r.Member(id)) })
		}
	}
}

// awaitLike waits until every view but the member's own sees the member as it is. A load may come later
// than the rest, and wakes nobody.
func (h *harness) awaitLike(want cluster.Member) {
	h.Helper()
	h.awaitMember(want.ID, "is as it started", func(got cluster.Member, there bool) bool {
		got.ActiveTenants = want.ActiveTenants
		return there && got == want
	})
	look := time.NewTicker(patience / 1000)
	defer look.Stop()
	end := time.Now().Add(patience)
	for id, v := range h.views {
		for got, _ := v.Roster().Member(want.ID); id != want.ID && got != want; got, _ = v.Roster().Member(want.ID) {
			if now := <-look.C; now.After(end) {
				h.Fatalf("not in %v: %s sees the load %d of %s; it sees %d", patience, id, want.ActiveTenants, want.ID, got.ActiveTenants)
			}
		}
	}
}

func (h *harness) awaitGone(id string) {
	h.Helper()
	h.awaitMember(id, "is gone", func(_ cluster.Member, there bool) bool { return !there })
	delete(h.views, id)
}

func idsOf(r *cluster.Roster) []string {
	ids := make([]string, len(r.Members))
	for i, m := range r.Members {
		ids[i] = m.ID
	}
	return ids
}

// copyOf is a roster that nobody else has.
func copyOf(r *cluster.Roster) cluster.Roster {
	c := *r
	c.Members = slices.Clone(r.Members)
	return c
}

func (h *harness) unchanged(before cluster.Roster, r *cluster.Roster) {
	h.Helper()
	if before.Epoch != r.Epoch || before.Self != r.Self || !slices.Equal(before.Members, r.Members) || before.Unsettled != r.Unsettled {
		h.Errorf("a roster was changed from %+v to %+v", before, *r)
	}
}
