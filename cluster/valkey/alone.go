package valkey

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// This file is what a node does while Valkey is away: it asks the others whether it may go on, and is asked.

const (
	// askEvery is how often the others are asked: often enough to reach one in the moment in which it leaves.
	askEvery = 250 * time.Millisecond
	// askWithin bounds the wait for their answers.
	askWithin = time.Second
)

// consult asks the others as long as there is need, until ctx ends.
func (v *View) consult(ctx context.Context) {
	if v.cfg.Ask == nil {
		return
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if v.lease.seeks(time.Now()) {
			v.ask(ctx)
		}
		v.mark(time.Now())
	}
}

// ask asks all others that could take over what is this node's.
func (v *View) ask(ctx context.Context) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	r := v.Board.Roster()
	words := make([]cluster.Assent, len(r.Members))
	var all sync.WaitGroup
	for i, m := range r.Members {
		if m.ID == r.Self.ID || m.State != cluster.Active {
			words[i] = cluster.Left
		} else {
			all.Go(func() { words[i] = v.askOne(ctx, m) })
		}
	}
	all.Wait()
	if !slices.Contains(words, cluster.Objected) && !slices.Contains(words, "") {
		v.lease.agree(asked)
	}
}

// askOne returns the word of one member; empty if it has none. One that has said that it leaves need not be there any
// more. That its port was closed counts for this time only: who listens there next may reach Valkey.
func (v *View) askOne(ctx context.Context, m cluster.Member) cluster.Assent {
	word, err := v.cfg.Ask(ctx, m)
	switch _, left := v.left.Load(m.ID); {
	case err != nil && left:
		return cluster.Left
	case err != nil:
		v.cfg.Logger.DebugContext(ctx, "member does not say whether it reaches valkey", "member", m.ID, "error", err)
		return ""
	case word == cluster.Refused:
	case word == cluster.Left:
		v.left.Store(m.ID, nil)
	default:
		v.left.Delete(m.ID)
	}
	return word
}

// Assent is what this node says to a member that has lost Valkey.
func (v *View) Assent() cluster.Assent {
	switch {
	case v.Board.Roster().Self.State != cluster.Active:
		return cluster.Left
	case v.lease.promise(time.Now()):
		return cluster.Assented
	default:
		return cluster.Objected
	}
}

// mark shows in the roster whether the node goes on without Valkey, and says when that begins and ends.
func (v *View) mark(now time.Time) {
	var since, before time.Time
	if v.lease.at(now) == frozen {
		since = v.lease.heard()
	}
	if v.Board.Roster().Stale.Equal(since) {
		return
	}
	v.Edit(func(r *cluster.Roster) { before, r.Stale = r.Stale, since })
	switch {
	case before.Equal(since): // another one was first, and has said it
	case before.IsZero():
		v.cfg.Logger.Warn("valkey is away: the node goes on with what it knew last, as do all others", "since", since, "error", v.why())
	case since.IsZero():
		v.cfg.Logger.Info("the node does not go on with what it knew last any more", "seconds", int(now.Sub(before).Seconds()))
	}
}
