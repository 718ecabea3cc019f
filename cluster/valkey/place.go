package valkey

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// batch is how many tenants one call renews or releases: few enough not to hold up Valkey.
const batch = 256

// adoptions is how often in the life of an assignment the node looks for tenants that it works for and does not know.
const adoptions = 4

// errPromised is why an answer of Valkey counts for nothing.
var errPromised = errors.New("the node has promised meanwhile to take nothing over")

// Place returns the owner of a tenant, from memory if the tenant is active. While Valkey does not answer, it
// is the last known owner as long as that lives, else the first of the ranking.
func (v *View) Place(ctx context.Context, key string, rank func() []cluster.Member) (cluster.Member, bool) {
	r, now := v.Roster(), time.Now()
	if r.Unsettled != nil {
		return cluster.Member{}, false
	}
	id, sure := v.tenants.owner(key, now)
	last, there := r.Member(id)
	there = there && last.State == cluster.Active
	// If another node takes this one for the owner and it is not, what one of them remembers is old.
	contested := id != v.cfg.Self.ID && cluster.Forwarded(ctx)
	if sure && there && !contested {
		v.metrics.cached.Inc()
		return last, true
	}
	if v.lease.at(now) == frozen {
		v.metrics.guessed.Inc()
		if !there {
			v.claim(key, rank(), now)
		}
		return last, there
	}
	named, ok, err := v.assign(ctx, key, rank(), now)
	switch {
	case err != nil:
		v.failed(ctx, "assign", err)
	case ok:
		v.metrics.asked.Inc()
		return named, true
	}
	v.metrics.guessed.Inc()
	return last, there && err != nil
}

// Doubt has Valkey be asked for the owner of key before it is named again.
func (v *View) Doubt(key string) { v.tenants.doubt(key) }

// claim notes of a tenant that nobody is known to have whether it is this node's, as the first of the ranking. Then
// Valkey is told when it is back.
func (v *View) claim(key string, ranked []cluster.Member, now time.Time) {
	if len(ranked) == 0 || ranked[0].ID != v.cfg.Self.ID {
		return
	}
	v.placing.RLock()
	defer v.placing.RUnlock()
	v.tenants.place(key, hashOf(key), v.cfg.Self.ID, now)
}

// assign asks Valkey, and remembers the answer as one of now.
func (v *View) assign(ctx context.Context, key string, ranked []cluster.Member, now time.Time) (cluster.Member, bool, error) {
	v.placing.RLock()
	defer v.placing.RUnlock()
	hash := hashOf(key)
	a, err := v.choose(ctx, key, hash, ranked)
	if a.named && v.lease.at(time.Now()) == frozen {
		return cluster.Member{}, false, errPromised
	}
	if a.named {
		v.tenants.place(key, hash, a.owner.ID, now)
		if m, _ := v.Board.Roster().Member(a.owner.ID); m.State != cluster.Active {
			v.wake() // to hear of it
		}
	}
	return a.owner, a.named, err
}

// choose has Valkey choose among the ranked, and those that have come since this node heard of the others: else the
// first nodes of a fleet would get the tenants of all.
func (v *View) choose(ctx context.Context, key, hash string, ranked []cluster.Member) (assigned, error) {
	t := tenure{hash, v.cfg.assignmentTTL()}
	a, err := v.store.assign(ctx, t, ranked, ids(v.active(), ranked))
	if !a.met {
		return a, err
	}
	if len(a.strangers) > 0 {
		v.wake() // to hear of them
	}
	return v.store.assign(ctx, t, cluster.Rank(slices.Concat(ranked, a.strangers), key), nil)
}

// active are the members that take tenants, as far as is known: one that drained may be back.
func (v *View) active() []cluster.Member {
	return slices.DeleteFunc(slices.Clone(v.Board.Roster().Members), func(m cluster.Member) bool { return m.State != cluster.Active })
}

func ids(lists ...[]cluster.Member) (all []string) {
	for _, list := range lists {
		for _, m := range list {
			all = append(all, m.ID)
		}
	}
	return all
}

// Release gives up that owner has the tenant.
func (v *View) Release(ctx context.Context, key, owner string) {
	v.tenants.forget(key, owner)
	if v.lease.at(time.Now()) == frozen {
		return
	}
	if err := v.store.release(ctx, owner, hashOf(key)); err != nil {
		v.failed(ctx, "release", err)
	}
}

// renew keeps the node's own tenants that are active, and releases those that are idle.
func (v *View) renew(ctx context.Context, now time.Time) {
	active, quiet, takeBack := v.tenants.due(now)
	idle := quiet[:0]
	for _, m := range quiet {
		if v.tenants.works(m) {
			active = append(active, m)
		} else {
			idle = append(idle, m)
		}
	}
	for list := range slices.Chunk(active, batch) {
		kept, err := v.store.renew(ctx, v.cfg.Self.ID, hashes(list), v.cfg.assignmentTTL(), takeBack)
		if err != nil {
			v.failed(ctx, "renew", err)
			if takeBack {
				v.tenants.takeBack()
			}
			return
		}
		v.tenants.renewed(list, kept, now)
	}
	for list := range slices.Chunk(idle, batch) {
		v.end(ctx, list, now)
	}
	v.adopt(ctx, now)
}

// adopt keeps tenants that the node works for and nobody has asked for here: those from before it started, and from
// another node. Only those are its own that Valkey takes for such.
func (v *View) adopt(ctx context.Context, now time.Time) {
	if v.cfg.Work == nil || now.Before(v.adopting) {
		return
	}
	for list := range slices.Chunk(v.tenants.strays(v.cfg.Work()), batch) {
		names := make([]string, len(list))
		for i, key := range list {
			names[i] = hashOf(key)
		}
		v.placing.RLock()
		own, err := v.store.renew(ctx, v.cfg.Self.ID, names, v.cfg.assignmentTTL(), false)
		for i := range list {
			if err == nil && own[i] == 1 {
				v.tenants.place(list[i], names[i], v.cfg.Self.ID, now)
			}
		}
		v.placing.RUnlock()
		if err != nil {
			v.failed(ctx, "renew", err)
			return
		}
	}
	v.adopting = now.Add(v.cfg.Idle / adoptions)
}

// end releases idle tenants. If that fails, their assignments end by themselves.
func (v *View) end(ctx context.Context, list []mine, now time.Time) {
	v.placing.Lock()
	defer v.placing.Unlock()
	ended := v.tenants.end(list, now)
	if len(ended) == 0 {
		return
	}
	if err := v.store.release(ctx, v.cfg.Self.ID, ended...); err != nil {
		v.failed(ctx, "release", err)
	}
}

func hashes(list []mine) []string {
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.hash
	}
	return names
}
