package node

import (
	"maps"
	"slices"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// This file is what becomes of limits that the nodes of a cluster share.

// newcomers is by how many a limit is divided while the node does not know by how many: what it takes then comes on top of
// what all others take, who do not know of it.
const newcomers = 100

// parts is into how many parts a limit is divided that is shared; r.mu is held.
func (r *regime) parts() pace.Parts {
	n := r.nodes
	if n == 0 {
		n = newcomers
	}
	return pace.Parts{RPS: n, MaxConcurrent: n}
}

// divide takes over how many nodes divide what is shared; 0: that is not known.
func (r *regime) divide(nodes int) {
	r.mu.Lock()
	before := r.nodes
	r.nodes = nodes
	shares := len(r.sharing()) > 0
	r.mu.Unlock()
	if shares && before != nodes {
		r.logger.Info("shared limits are divided anew", "nodes", nodes, "before", before)
	}
	r.warnOfSlots()
	r.tell(nil)
}

// shared is what the nodes may have of a target together, and how many they are; nil: each has its own.
func (r *regime) shared(host string) *api.Shared {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t := r.targets.For(host)
	if !t.Shared {
		return nil
	}
	return &api.Shared{Nodes: r.nodes, RPS: t.RPS, MaxConcurrent: t.MaxConcurrent}
}

// warnOfSlots says of which hosts the nodes together may have more open calls than is shared, as each has one at least.
func (r *regime) warnOfSlots() {
	r.mu.RLock()
	var short []string
	for name, slots := range r.sharing() {
		if slots < r.nodes {
			short = append(short, name)
		}
	}
	nodes := r.nodes
	r.mu.RUnlock()
	if len(short) == 0 {
		return
	}
	slices.Sort(short)
	r.logger.Warn("max_concurrent is shared by more nodes than it has: each may have one call open", "nodes", nodes, "of", short)
}

// sharing is how many open calls are shared, by where the file says so; r.mu is held.
func (r *regime) sharing() map[string]int {
	found := map[string]int{}
	for where, all := range map[string]Targets{"target": r.targets, "webhook receiver": r.webhooks} {
		hosts := maps.Clone(all.Hosts)
		if hosts == nil {
			hosts = map[string]Target{}
		}
		hosts["any other"] = all.Default
		for host, t := range hosts {
			if t.Shared {
				found[where+" "+host] = t.MaxConcurrent
			}
		}
	}
	return found
}
