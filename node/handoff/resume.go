package handoff

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Resume clears up what the last process has left in doubt, until nothing is or ctx ends. It runs beside a node that
// serves. What a peer has is forgotten; what it cannot have, or has not after Patience, is taken back and queued. A store
// that cannot be read is asked again. The error is that of one that is closed.
func (g *Giver) Resume(ctx context.Context) error {
	until := time.Now().Add(g.Patience)
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		doubt, err := g.clear(ctx)
		if ctx.Err() == nil && err == nil && doubt > 0 && time.Now().After(until) {
			doubt, err = 0, g.takeBack(ctx)
		}
		switch {
		case errors.Is(err, store.ErrClosed):
			return err
		case err == nil && doubt == 0:
			return nil
		case err != nil && ctx.Err() == nil:
			g.Logger.ErrorContext(ctx, "offered work not read", "error", err)
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// clear asks once about all that is in doubt, and returns how many jobs still are.
func (g *Giver) clear(ctx context.Context) (doubt int, err error) {
	p := newPass(g, new(absentees))
	p.serving = true
	err = p.run(ctx)
	g.Metrics.doubt.Set(float64(p.doubt))
	return p.doubt, err
}

// takeBack takes back all that is in doubt.
func (g *Giver) takeBack(ctx context.Context) error {
	offered, err := g.offered(ctx)
	if err != nil {
		return err
	}
	for peer, work := range offered {
		kept, ok := g.takeUp(ctx, peer, work)
		if !ok {
			continue // it waits for the next start
		}
		g.Metrics.doubt.Sub(float64(len(work)))
		if kept > 0 {
			g.Logger.WarnContext(ctx, "work taken back from a peer that is away: if it has copies, they run twice", "peer", peer, "jobs", kept)
		}
	}
	return nil
}

// takeUp keeps work that was offered, and queues it; false if that could not be recorded: then it waits for the next
// start. What is here as a newer copy, as a peer has handed it back, is queued already.
func (g *Giver) takeUp(ctx context.Context, peer string, work []store.Handed) (kept int, ok bool) {
	expected := make(map[job.ID]coming, len(work))
	for _, h := range work {
		expected[h.Job.ID] = g.Lines.expect(h)
	}
	stands, ok := g.keep(ctx, peer, work)
	for _, h := range stands {
		expected[h.Job.ID].arrive(h.Place().Order)
		delete(expected, h.Job.ID)
	}
	for _, c := range expected {
		c.cancel()
	}
	return len(stands), ok
}

// keep keeps work that was offered, and returns what of it stands here again.
func (g *Giver) keep(ctx context.Context, peer string, work []store.Handed) (stands []store.Handed, ok bool) {
	ok = g.record(ctx, func(ctx context.Context) (err error) {
		stands, err = g.Store.Keep(ctx, peer, work)
		return err
	})
	g.Metrics.kept.Add(float64(len(stands)))
	return stands, ok
}
