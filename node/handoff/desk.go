package handoff

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	// senders are how many batches are on their way to one peer: while one is sent, the other is stored.
	senders = 2
	// reach is how long a pass waits for the senders of one peer, once: longer than a batch takes as a rule, and short
	// beside the time that a node has to stop.
	reach = 250 * time.Millisecond
)

// desk is the work for one peer in a pass. Only out and down are for others than the goroutine of the pass.
type desk struct {
	peer  Peer
	work  []store.Handed // of the next batch
	bytes int
	slow  bool // the senders are not waited for any more
	out   chan []store.Handed
	down  atomic.Bool // the peer takes no more in this pass
}

// open starts the senders of a peer. They begin when the peer was asked about the work of it that is in doubt.
func (p *pass) open(ctx context.Context, peer Peer, doubt []store.Handed) *desk {
	d := &desk{peer: peer, out: make(chan []store.Handed)}
	p.desks[peer] = d
	asked := make(chan struct{})
	p.all.Go(func() {
		defer close(asked)
		p.ask(ctx, d, doubt)
	})
	for range senders {
		p.all.Go(func() {
			<-asked
			for work := range d.out {
				p.offer(ctx, d, work)
			}
		})
	}
	return d
}

// put adds work to the next batch, within the bounds of one; false if it does not fit and the senders are still busy.
func (d *desk) put(h store.Handed, g *Giver) bool {
	size := bytesOf(h)
	full := len(d.work) > 0 && (len(d.work) >= g.BatchJobs || d.bytes+size > g.BatchBytes)
	if full && !d.post() {
		return false
	}
	d.work, d.bytes = append(d.work, h), d.bytes+size
	return true
}

// post passes the batch on to the senders; false if none is free.
func (d *desk) post() bool {
	select {
	case d.out <- d.work:
		d.work, d.bytes = nil, 0
		return true
	default:
	}
	if d.slow {
		return false
	}
	timer := time.NewTimer(reach)
	defer timer.Stop()
	select {
	case d.out <- d.work:
		d.work, d.bytes = nil, 0
		return true
	case <-timer.C:
		d.slow = true
		return false
	}
}

// end passes the last batch on, unless the peer does not keep up, and ends the senders.
func (p *pass) end(d *desk) {
	defer close(d.out)
	switch {
	case len(d.work) == 0:
	case d.slow:
		if left := len(d.work); !d.post() {
			p.add(0, left, 0, left)
		}
	default:
		d.out <- d.work
	}
}

// offer hands one batch over, unless the peer is down or time is up.
func (p *pass) offer(ctx context.Context, d *desk, work []store.Handed) {
	if d.down.Load() || ctx.Err() != nil {
		p.add(0, len(work), 0, len(work))
		return
	}
	g := p.giver
	taken, err := g.Store.Offer(ctx, d.peer.ID, work)
	if err != nil {
		d.down.Store(true)
		g.Logger.ErrorContext(ctx, "work not offered", "peer", d.peer.ID, "jobs", len(work), "error", err)
		g.keep(ctx, d.peer.ID, work)
		p.add(0, len(work), 0, len(work))
		return
	}
	p.add(0, len(work)-len(taken), 0, len(work)-len(taken))
	if len(taken) > 0 {
		p.deliver(ctx, d, taken, true)
	}
}

// ask sends work again that is in doubt. A peer that takes nothing is asked all the same: it says what it has.
func (p *pass) ask(ctx context.Context, d *desk, work []store.Handed) {
	for known := true; known && len(work) > 0 && ctx.Err() == nil; {
		n := p.giver.cut(work)
		known = p.deliver(ctx, d, work[:n], false)
		work = work[n:]
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
