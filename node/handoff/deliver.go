package handoff

import (
	"context"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// deliver sends work that is offered to the peer of a desk and notes what it says. fresh tells that it was not sent
// before: then a refusal is certain. Work that the peer cannot take together is sent in halves, down to the job that it
// cannot take, which holds no other one back. It returns false if the peer does not answer, or its answer is not recorded.
func (p *pass) deliver(ctx context.Context, d *desk, work []store.Handed, fresh bool) (known bool) {
	verdicts, out, err := p.giver.send(ctx, d.peer, work)
	if out == unfit && len(work) > 1 {
		half := len(work) / 2
		first := p.deliver(ctx, d, work[:half], fresh)
		return p.deliver(ctx, d, work[half:], fresh) && first
	}
	p.warn(ctx, d.peer, work, out, err)
	switch {
	case out == answered:
		return p.note(ctx, d, sorted(work, verdicts, fresh))
	case out == unfit && fresh:
		return p.note(ctx, d, result{hasNot: work})
	case out == unfit: // the peer may have it from before, and asking again does not tell
		p.add(0, 0, len(work), 0)
		return true
	}
	if out == untaken && fresh {
		p.note(ctx, d, result{hasNot: work, again: len(work)})
	} else {
		p.add(0, 0, len(work), len(work))
	}
	p.refused(d)
	return false
}

// refused notes that the peer of a desk takes nothing now.
func (p *pass) refused(d *desk) {
	d.down.Store(true)
	p.away.add(d.peer.ID)
}

// warn logs why there is no verdict.
func (p *pass) warn(ctx context.Context, peer Peer, work []store.Handed, out outcome, err error) {
	log := p.giver.Logger
	switch {
	case err == nil:
	case out == unfit:
		p.unfit.Do(func() {
			log.WarnContext(ctx, "peer cannot take a job, nor perhaps others", "peer", peer.ID, "job_id", work[0].Job.ID.String(), "error", err)
		})
	default:
		log.WarnContext(ctx, "peer has not taken work", "peer", peer.ID, "jobs", len(work), "unknown", out == unknown, "error", err)
	}
}

// result is what a peer says of a batch.
type result struct {
	has, hasNot []store.Handed
	doubt       int  // jobs of which it is still not known
	refused     bool // the peer takes no more
	again       int  // jobs that are to be offered or asked about again
}

// sorted reads the verdicts. Of work that was sent before, a refusal says nothing: the first request may
// still be on its way.
func sorted(work []store.Handed, verdicts []Verdict, fresh bool) (r result) {
	for i, v := range verdicts {
		switch v {
		case store.Adopted, store.Held:
			r.has = append(r.has, work[i])
		case store.Taken:
			r.hasNot = append(r.hasNot, work[i])
			if !fresh { // this pass may not meet it in its place
				r.again++
			}
		default:
			r.refused = r.refused || v == Refused
			r.again++
			if fresh {
				r.hasNot = append(r.hasNot, work[i])
			} else {
				r.doubt++
			}
		}
	}
	return r
}

// note records what the peer of a desk has said. What cannot be recorded is asked again, and nothing more is sent before.
func (p *pass) note(ctx context.Context, d *desk, r result) (recorded bool) {
	g, peer := p.giver, d.peer.ID
	if r.refused {
		p.refused(d)
	}
	forgotten := len(r.has) == 0 || g.record(ctx, func(ctx context.Context) error { return g.Store.Forget(ctx, peer, r.has) })
	kept := len(r.hasNot) == 0 || p.keep(ctx, peer, r.hasNot)
	handed, left, doubt := len(r.has), len(r.hasNot), r.doubt
	g.Metrics.given.Add(float64(handed))
	if !kept {
		left, doubt = 0, doubt+left
	}
	p.add(handed, left, doubt, r.again)
	if !forgotten || !kept {
		d.down.Store(true)
	}
	return forgotten && kept
}

// keep notes that work stays here.
func (p *pass) keep(ctx context.Context, peer string, work []store.Handed) (ok bool) {
	if p.serving {
		_, ok = p.giver.takeUp(ctx, peer, work)
	} else {
		_, ok = p.giver.keep(ctx, peer, work)
	}
	return ok
}

// record makes a change of the store that must not end with ctx, and tries it again while it fails.
func (g *Giver) record(ctx context.Context, change func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
	defer cancel()
	for {
		err := change(ctx)
		if err == nil {
			return true
		}
		if !pause(ctx, firstPause) {
			g.Logger.ErrorContext(ctx, "answer of a peer not recorded", "error", err)
			return false
		}
	}
}
