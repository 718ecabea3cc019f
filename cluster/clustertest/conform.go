package clustertest

import (
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// Provider is an implementation of cluster.View under test.
type Provider struct {
	// New prepares a cluster that does not run yet, and cleans it up when t ends. The members are those
	// that start it; a provider that finds members by itself may ignore them.
	New func(t *testing.T, members []cluster.Member) Cluster
	// Fixed: the members are configured; nobody notices that one comes, goes or drains, and of
	// another member only the id and the address are known.
	Fixed bool
	// Bubble runs each test in a bubble of testing/synctest.
	Bubble bool
}

// Cluster is what a Provider gives a test to play with.
type Cluster interface {
	// Start runs a node with its provider and returns its view, settled or not. The node may have been
	// there before, and may come back with another address. Another node of the same id may be
	// there. The member's load is the load that it reports.
	Start(t *testing.T, m cluster.Member) cluster.View
	// Leave ends the node in order, as a process does that was asked to stop.
	Leave(t *testing.T, id string)
	// Kill ends the node as kill -9 would: nothing more is sent or received.
	Kill(t *testing.T, id string)
}

// Conform holds a provider to the contract of cluster.View. Each test has a cluster of its own. What takes
// the provider some time is waited for, as long as a minute.
func Conform(t *testing.T, p Provider) {
	tests := map[string]func(*harness){
		"settles with all members":         settles,
		"rosters are well formed":          wellFormed,
		"rosters do not change":            immutable,
		"members are seen as they are":     particulars,
		"changes wake, and quiet is quiet": changes,
		"a state is seen at home at once":  announceAtHome,
		"a state can be told to nobody":    announceToNobody,
		"a single node settles":            single,
	}
	if !p.Fixed {
		for name, f := range map[string]func(*harness){
			"a draining member is seen to drain":     draining,
			"a member that leaves is gone":           leaving,
			"a member that is killed is gone":        killed,
			"a member joins later":                   joins,
			"a member returns at another address":    returns,
			"a member returns at once":               returnsAtOnce,
			"a second node of an id is told so":      duplicate,
			"the whole cluster restarts and settles": restart,
		} {
			tests[name] = f
		}
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			run := func(t *testing.T) { f(&harness{T: t, provider: p}) }
			if p.Bubble {
				synctest.Test(t, run)
			} else {
				run(t)
			}
		})
	}
}
