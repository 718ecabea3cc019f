package handoff

import (
	"context"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// pass goes once over all work. Its run sorts it by owner; each peer has a desk with senders of its own, which first
// ask what the peer has of the work in doubt. A peer that does not keep up holds the sorting back for reach at the
// most; after that the rest for it is left to the next pass, which begins when what was sent in this one is answered.
type pass struct {
	giver *Giver
	// serving: the node goes on, so what stays here is to be queued, and nothing fresh is handed over.
	serving bool
	alone   bool           // there is nobody to hand work over to
	desks   map[Peer]*desk // owned by run
	away    *absentees
	unfit   sync.Once // a job that its peer cannot take is logged once: they may be many, and of one reason
	all     sync.WaitGroup
	counts
}

func newPass(g *Giver, away *absentees) *pass {
	return &pass{giver: g, away: away, desks: make(map[Peer]*desk)}
}

// run clears up what is in doubt and hands over the rest. The error is that of a store that cannot be read.
func (p *pass) run(ctx context.Context) error {
	err := p.clear(ctx)
	if err == nil && !p.serving {
		err = p.fill(ctx)
	}
	for _, d := range p.desks {
		p.all.Go(func() { p.end(d) })
	}
	p.all.Wait()
	return err
}

// clear has the peers asked that may have work of this node.
func (p *pass) clear(ctx context.Context) error {
	offered, err := p.giver.offered(ctx)
	if err != nil {
		return err
	}
	for id, work := range offered {
		if peer, ok := p.giver.Peers.Member(id); ok {
			p.open(ctx, peer, work)
		} else {
			p.add(0, 0, len(work), 0)
		}
	}
	return nil
}

// fill sorts all that can be handed over by owner. Where nobody is who could own anything, it is not read.
func (p *pass) fill(ctx context.Context) error {
	if p.alone = !p.giver.Peers.Anybody(); p.alone {
		return nil
	}
	for h, err := range p.giver.Unfinished(ctx) {
		if err != nil {
			return err
		}
		// Looked at after the store: what it shows was held before, or is no longer worked on.
		if p.giver.Holds.has(h.Job.ID) {
			p.add(0, 1, 0, 0)
			continue
		}
		peer, ok := p.owner(ctx, h.Job)
		if !ok {
			p.add(0, 1, 0, 0)
			continue
		}
		d := p.desks[peer]
		if d == nil {
			d = p.open(ctx, peer, nil)
		}
		if !d.put(h, p.giver) {
			p.add(0, 1, 0, 1)
		}
	}
	return nil
}

// owner returns who is to get a job. When all who may are away, each is asked again: one of them may take work by now.
func (p *pass) owner(ctx context.Context, j *job.Job) (Peer, bool) {
	away := p.away.list()
	peer, ok := p.giver.Peers.Owner(ctx, j, away)
	if !ok && len(away) > 0 {
		p.away.clear()
		peer, ok = p.giver.Peers.Owner(ctx, j, nil)
	}
	return peer, ok
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

// counts is what a pass has done.
type counts struct {
	mu     sync.Mutex // guards all
	handed int
	left   int
	doubt  int
	later  int // of those left or in doubt, the ones that another pass may hand over
}

func (c *counts) add(handed, left, doubt, later int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handed += handed
	c.left += left
	c.doubt += doubt
	c.later += later
}
