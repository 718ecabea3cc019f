package cluster

import (
	"context"
	"errors"
	"time"
)

// beliefTimeout bounds how long a request waits for others to say whether they believe its node.
const beliefTimeout = 2 * time.Second

// believedBesides reports whether a member other than m believes this node's seal now. Then the fault is at m, and
// another one may own what is m's; else this node's secret or clock is wrong, and it would take itself for the owner of
// everything.
func (f *Forwarder) believedBesides(ctx context.Context, m Member) bool {
	ctx, cancel := context.WithTimeout(ctx, beliefTimeout)
	defer cancel()
	now := f.Owners.fields.now()
	believed := make(chan bool, len(now.members))
	asked := 0
	for _, other := range now.members {
		if other.ID == m.ID || other.ID == now.roster.Self.ID || f.Owners.pruned.has(other) {
			continue
		}
		asked++
		go func() {
			err := f.ready(ctx, other)
			believed <- err == nil || errors.Is(err, errNotReady)
		}()
	}
	for range asked {
		if <-believed {
			return true
		}
	}
	return false
}
