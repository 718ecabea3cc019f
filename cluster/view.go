package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is what a node knows of its cluster. Every provider of membership is one, and package
// clustertest holds them all to what is written here.
//
// A View is usable before its provider runs: it then has the node itself for its only member and is
// not settled. All methods are safe for concurrent use, and none but Announce waits for anything.
type View interface {
	// Roster returns what is known now. It is never nil and never changes; do not write to it.
	Roster() *Roster
	// Changes returns a channel that is closed when the roster's epoch has grown. Who wants to miss
	// nothing takes the channel first and reads the roster then.
	Changes() <-chan struct{}
	// Announce makes s the state of this node. Its own roster has it when Announce returns, whatever
	// the error; the other nodes hear of it soon. The error tells that they may not have been
	// told, and that the provider keeps trying while it runs.
	Announce(ctx context.Context, s State) error
}

// Roster is who belongs to the cluster at one moment.
type Roster struct {
	// Epoch grows when anything in the roster changes but the members' loads and Stale, so a placement that
	// was computed at one epoch holds until the next.
	Epoch uint64
	// Self is this node.
	Self Member
	// Members are all members, this node among them, in ascending order of ids. Each id is there once.
	Members []Member
	// Left are ids of those that have gone from Members because they said that they leave, as far as the provider tells that
	// from a death, and for as long as it remembers. A member that was seen to drain before it went has left, too.
	Left []string
	// Stale is since when the provider cannot learn anything new, and goes on with what it knew then; zero if it can. Such
	// a roster may be relied on: whoever else could have it that somebody else owns what this one says has agreed.
	Stale time.Time
	// Unsettled says why the roster must not be relied on yet, in words for an operator; nil when it
	// may. A node whose roster is unsettled is not ready and owns and forwards nothing.
	Unsettled error
}

// Member returns the member of that id.
func (r *Roster) Member(id string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(r.Members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if !ok {
		return Member{}, false
	}
	return r.Members[i], true
}

// TakenError is why the roster of a node is unsettled whose id another living node has.
type TakenError struct {
	// ID is the id of both, and Address is where the other node is.
	ID, Address string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("the id %s is taken by the node at %s; each node needs its own", e.ID, e.Address)
}
