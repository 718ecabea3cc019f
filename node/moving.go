package node

import (
	"context"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// movesWork says whether the node hands work to others and takes theirs: one that is in no cluster does not, nor does
// one whose peers cannot prove who they are, as anybody could hand it anything.
func (c *Config) movesWork() bool { return c.Cluster.Enabled && len(c.Cluster.PeerSecret) > 0 }

// moving hands unfinished work to the nodes that own its tenants next, and takes such work; nil for a node that does
// not.
type moving struct {
	giver *handoff.Giver
	taker *handoff.Taker
}

func (n *Node) newMoving(p *parts) (*moving, error) {
	if !n.cfg.movesWork() {
		return nil, nil //nolint:nilnil // most nodes have none
	}
	metrics := handoff.NewMetrics(n.deps.Registry)
	lines := handoff.Lines{Calls: p.calls, Deliveries: p.deliveries, Wake: p.agenda.Wake}
	giver, err := handoff.NewGiver(handoff.GiverConfig{
		Store: p.store, Unfinished: p.store.Unfinished, Peers: owners{p.cluster}, Lines: lines, Backlog: p.backlog, Holds: p.holds,
		Transport: exchange{p.cluster.peers}, Unsent: unsent, Sign: p.cluster.seal.Sign,
		Metrics: metrics, Logger: n.deps.Logger,
	})
	if err != nil {
		return nil, err
	}
	taker, err := handoff.NewTaker(handoff.TakerConfig{
		Store: p.store, Lines: lines, FromPeer: fromPeer, Room: n.room(p), MaxBytes: n.cfg.peerBodyBytes(),
		Metrics: metrics, Logger: n.deps.Logger,
	})
	return &moving{giver, taker}, err
}

// backlog is how many unfinished jobs the queues count.
func (p *parts) backlog() int { return p.calls.Stats().Backlog + p.deliveries.Stats().Backlog }

// room says whether work of a peer may come now. A node that may own nothing takes none, since nobody would ask it for the
// keys: it goes to the next owner in line.
func (n *Node) room(p *parts) func(bytes int64) error {
	return func(bytes int64) error {
		if n.draining.Load() {
			return fault.New(fault.Draining, "the node is draining")
		}
		if err := p.cluster.ready(); err != nil {
			return err
		}
		return p.gate.Admit(bytes)
	}
}

// fromPeer reports whether a request that came through the gate is under a seal.
func fromPeer(r *http.Request) bool {
	hop, ok := cluster.HopOf(r)
	return ok && hop.Sealed
}

// peerBodyBytes bounds what a peer sends at a time: a job with the largest body, and the largest answer that is owed for it.
func (c *Config) peerBodyBytes() int64 {
	const rest = 1 << 20 // a batch of small jobs
	if c.MaxBodyBytes == 0 {
		return 1 << 30
	}
	return c.MaxBodyBytes + c.MaxResponseBytes + rest
}

// alone reports whether there is nobody to hand work over to.
func (m *moving) alone() bool { return m == nil || !m.giver.Peers.Anybody() }

// resume goes on with what the last process was handing over, until ctx ends.
func (m *moving) resume(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.giver.Resume(ctx)
}

// route adds the way in for peers.
func (m *moving) route(api http.Handler) http.Handler {
	if m == nil {
		return api
	}
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle(handoff.Path, m.taker)
	return mux
}

// handOver gives what waits to the nodes that own it next, and what is open leaves to do when it has ended. What cannot
// be given stays on disk. It takes no longer than ctx, and returns how many jobs others have now.
func (n *Node) handOver(ctx context.Context, p *parts, w *work) int {
	w.noTurns()
	p.holds.Close()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		n.settleOpen(ctx, p, w)
	}()
	defer func() { <-settled }()
	w.noResume()
	began := time.Now()
	report, err := p.moving.giver.Drain(ctx, settled)
	if err != nil {
		n.deps.Logger.Error("work not handed over", "error", err)
	}
	n.deps.Logger.Info("work handed over", "handed", report.Handed, "left", report.Left, "in_doubt", report.Doubt, "took", time.Since(began).String())
	return report.Handed
}

// settleOpen waits until no attempt is open and no stream may confirm any more, but no longer than for half of the time
// of ctx: the rest is for giving what that leaves.
func (n *Node) settleOpen(ctx context.Context, p *parts, w *work) {
	limit, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(limit)/2)
	defer cancel()
	for _, s := range []step{
		{"open attempts", w.turns.Wait},
		{"confirmations", func() error { p.ending.Wait(); return nil }},
	} {
		if ctx.Err() == nil { // else there may be new ones
			_ = s.within(ctx, n.deps.Logger)
		}
	}
}

// owners tells who owns the tenants of jobs.
type owners struct{ *membership }

// Owner is handoff.Peers.
func (o owners) Owner(ctx context.Context, j *job.Job, tried []string) (handoff.Peer, bool) {
	owner, err := o.owners.Successor(ctx, routingKey(j.Request.Key()), tried)
	if err != nil || owner.Local {
		return handoff.Peer{}, false
	}
	return handoff.Peer{ID: owner.ID, Address: owner.Address}, true
}

// Anybody is handoff.Peers.
func (o owners) Anybody() bool { return o.owners.Others() }

// Member is handoff.Peers.
func (o owners) Member(id string) (handoff.Peer, bool) {
	peer, ok := o.view.Roster().Member(id)
	return handoff.Peer{ID: peer.ID, Address: peer.Address}, ok
}
