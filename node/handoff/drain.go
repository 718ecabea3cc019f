package handoff

import (
	"context"
	"time"
)

// Drain hands over what can be handed over until ctx ends. Before it, the node must have stopped its intake and its
// queues, and closed its holds. What is still open, an attempt or a hold, keeps its job here; once settled is closed
// nothing more is waited for, and Drain goes over all a last time. What peers refuse is offered again, to whoever owns it
// then. The error is that of a store that could not be read.
func (g *Giver) Drain(ctx context.Context, settled <-chan struct{}) (Report, error) {
	var r Report
	var away absentees
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		last := isClosed(settled)
		p := newPass(g, &away)
		err := p.run(ctx)
		r.Handed += p.handed
		r.Left, r.Doubt = p.left, p.doubt
		g.Metrics.doubt.Set(float64(p.doubt))
		if p.alone {
			r.Left = max(g.Backlog()-r.Handed, 0)
		}
		if err != nil && ctx.Err() == nil {
			return r, err
		}
		switch {
		case p.later > 0:
			if p.handed > 0 {
				wait = firstPause
			}
			if !pause(ctx, wait) {
				return r, nil
			}
		case last || !await(ctx, settled):
			return r, nil
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// await waits for c to be closed, and reports whether ctx is still alive.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
