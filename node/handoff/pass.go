package handoff

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// pass goes once over all work. Its run fills the batches; each peer has senders of its own, so that a slow
// one holds nobody back but itself, until it fails: then the rest for it is left.
type pass struct {
	giver *Giver
	// serving: the node goes on, so what stays here is to be queued.
	serving bool
	alone   bool           // there is nobody to hand work over to
	desks   map[Peer]*desk // owned by run
	away    sync.Map       // of Peer: those that did not take what is in doubt
	all     sync.WaitGroup
	counts
}

// desk is the work for one peer.
type desk struct {
	work  []store.Handed // of the next batch
	bytes int
	out   chan []store.Handed
	down  atomic.Bool // the peer takes no more in this pass
}

// run clears up what is in doubt, then hands over the rest.
func (p *pass) run(ctx context.Context) error {
	if err := p.clear(ctx); err != nil {
		return err
	}
	err := p.fill(ctx)
	for _, d := range p.desks {
		d.post()
		close(d.out)
	}
	p.all.Wait()
	return err
}

// fill sorts all that can be handed over by owner. Where nobody is who could own anything, it is not read.
func (p *pass) fill(ctx context.Context) error {
	if p.alone = !p.giver.Peers.Anybody(); p.alone {
		return nil
	}
	for h, err := range p.giver.Store.Unfinished(ctx) {
		if err != nil {
			return err
		}
		// Looked at after the store: what it shows was held before, or is no longer worked on.
		if p.giver.Holds.has(h.Job.ID) {
			p.add(0, 1, 0, 0)
			continue
		}
		peer, ok := p.giver.Peers.Owner(ctx, h.Job)
		if !ok {
			p.add(0, 1, 0, 0)
			continue
		}
		d := p.desks[peer]
		if d == nil {
			d = p.open(ctx, peer)
		}
		size := bytesOf(h)
		if len(d.work) > 0 && (len(d.work) >= p.giver.BatchJobs || d.bytes+size > p.giver.BatchBytes) {
			d.post()
		}
		d.work, d.bytes = append(d.work, h), d.bytes+size
	}
	return nil
}

// bytesOf is about how many bytes a job has on the wire.
func bytesOf(h store.Handed) int {
	r := &h.Job.Request
	n := 512 + len(r.Body) + len(r.URL) + len(r.WebhookURL) + len(h.Payload) + 64*len(h.State.Attempts)
	for _, hd := range r.Headers {
		n += len(hd.Name) + len(hd.Value)
	}
	if h.State.Result != nil {
		n += len(h.State.Result.Body)
	}
	return n
}

func (p *pass) open(ctx context.Context, peer Peer) *desk {
	d := &desk{out: make(chan []store.Handed)}
	p.desks[peer] = d
	_, away := p.away.Load(peer)
	d.down.Store(away)
	for range senders {
		p.all.Go(func() {
			for work := range d.out {
				p.offer(ctx, peer, d, work)
			}
		})
	}
	return d
}

// post passes the batch of a desk on to its senders.
func (d *desk) post() {
	if len(d.work) > 0 {
		d.out <- d.work
	}
	d.work, d.bytes = nil, 0
}

// offer hands one batch over, unless the peer is down or time is up.
func (p *pass) offer(ctx context.Context, peer Peer, d *desk, work []store.Handed) {
	if d.down.Load() || ctx.Err() != nil {
		p.add(0, len(work), 0, len(work))
		return
	}
	g := p.giver
	taken, err := g.Store.Offer(ctx, peer.ID, work)
	if err != nil {
		d.down.Store(true)
		g.Logger.ErrorContext(ctx, "work not offered", "peer", peer.ID, "jobs", len(work), "error", err)
		g.keep(ctx, peer.ID, work)
		p.add(0, len(work), 0, len(work))
		return
	}
	p.add(0, len(work)-len(taken), 0, len(work)-len(taken))
	if len(taken) > 0 && !p.deliver(ctx, peer, taken, true) {
		d.down.Store(true)
	}
}

// clear asks the peers that may have work of this node what they have.
func (p *pass) clear(ctx context.Context) error {
	offered, err := p.giver.offered(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for id, work := range offered {
		peer, ok := p.giver.Peers.Member(id)
		if !ok {
			p.add(0, 0, len(work), 0)
			continue
		}
		all.Go(func() { p.ask(ctx, peer, work) })
	}
	all.Wait()
	return nil
}

// ask sends work again that is in doubt.
func (p *pass) ask(ctx context.Context, peer Peer, work []store.Handed) {
	for len(work) > 0 && ctx.Err() == nil {
		n := p.giver.cut(work)
		takes := p.deliver(ctx, peer, work[:n], false)
		work = work[n:]
		if !takes {
			p.away.Store(peer, true)
			break
		}
	}
	p.add(0, 0, len(work), len(work))
}

// cut returns how many of the jobs fit into one batch; at least one does.
func (g *Giver) cut(work []store.Handed) int {
	n, bytes := 1, bytesOf(work[0])
	for n < min(len(work), g.BatchJobs) && bytes+bytesOf(work[n]) <= g.BatchBytes {
		bytes += bytesOf(work[n])
		n++
	}
	return n
}

// deliver sends work that is offered to a peer and notes what it says. fresh tells that it was not sent
// before: then a refusal is certain. It returns false if the peer takes no more.
func (p *pass) deliver(ctx context.Context, peer Peer, work []store.Handed, fresh bool) (takes bool) {
	g := p.giver
	verdicts, out, err := g.send(ctx, peer, work)
	if err != nil {
		g.Logger.WarnContext(ctx, "peer has not taken work", "peer", peer.ID, "jobs", len(work), "unknown", out == unknown, "error", err)
	}
	switch {
	case out == answered:
		return p.note(ctx, peer, sorted(work, verdicts, fresh))
	case out == unfit && fresh && len(work) > 1: // the others go on without the one that the peer cannot take
		half := len(work) / 2
		first := p.deliver(ctx, peer, work[:half], true)
		return p.deliver(ctx, peer, work[half:], true) && first
	case out == unfit && fresh:
		return p.note(ctx, peer, result{hasNot: work})
	case out == untaken && fresh:
		return p.note(ctx, peer, result{hasNot: work, refused: true, again: len(work)})
	default:
		g.Peers.Failed(ctx, peer)
		p.add(0, 0, len(work), len(work))
		return false
	}
}

// result is what a peer says of a batch.
type result struct {
	has, hasNot []store.Handed
	doubt       int  // jobs of which it is still not known
	refused     bool // the peer takes no more
	again       int  // jobs that it may take later
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

// note records what a peer has said. What cannot be recorded is asked again by the next process.
func (p *pass) note(ctx context.Context, peer Peer, r result) (takes bool) {
	g := p.giver
	if r.refused {
		g.Peers.Failed(ctx, peer)
	}
	forgotten := len(r.has) == 0 || g.record(ctx, func(ctx context.Context) error { return g.Store.Forget(ctx, peer.ID, r.has) })
	kept := len(r.hasNot) == 0 || p.keep(ctx, peer.ID, r.hasNot)
	handed, left, doubt := len(r.has), len(r.hasNot), r.doubt
	g.Metrics.given.Add(float64(handed))
	if !kept {
		left, doubt = 0, doubt+left
	}
	p.add(handed, left, doubt, r.again)
	return !r.refused && forgotten && kept
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
