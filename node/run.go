package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/cluster/gossip"
	"github.com/aquifer-fleet/aquifer/registry"
)

// Run takes its ports, opens the store, takes up what the last process left, serves until ctx ends or the
// store fails, and stops. A stop that meets its deadline is not an error: what is unfinished stays on disk
// for the next start. A node runs once: a second call returns ErrStarted.
func (n *Node) Run(ctx context.Context) error {
	if !n.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	doors, err := n.listen(ctx)
	if err != nil {
		return err
	}
	parts, err := n.prepare(ctx, doors.port)
	if err != nil {
		return errors.Join(err, doors.close())
	}
	n.addr = doors.api.Addr()
	n.deps.Logger.Info("serving", append([]any{"address", n.addr.String(), "node_id", n.cfg.NodeID}, n.cfg.Cluster.logged()...)...)

	parts.region.start()
	work := n.start(parts, doors)
	close(n.ready)
	parts.registered.start()
	select {
	case <-ctx.Done():
	case <-work.failed:
	case <-parts.store.Failed():
		// Nothing can be recorded any more: whoever supervises the process starts it again, and the
		// store opens with what was acknowledged.
		return n.stop(parts, work, 0)
	}
	return n.stop(parts, work, n.cfg.ShutdownTimeout())
}

// prepare builds the parts and takes up what the last process left.
func (n *Node) prepare(ctx context.Context, port string) (*parts, error) {
	parts, err := n.assemble(ctx, port)
	if err != nil {
		return nil, err
	}
	found, err := parts.recovery().run(ctx)
	if err != nil {
		return nil, errors.Join(err, parts.close())
	}
	n.deps.Logger.Info("work taken up", "interrupted", found.interrupted, "queued", found.calls,
		"deliveries", found.deliveries, "retries", found.waiting)
	return parts, nil
}

// doors are the ports of a node.
type doors struct {
	api   net.Listener
	debug net.Listener // nil: none
	port  string       // at which a control plane can call the API; empty if there is none
}

// listen takes the ports. It comes before everything else, because opening the store changes it: a node
// that cannot serve must leave it as it is. Who connects before the node serves waits until it does.
func (n *Node) listen(ctx context.Context) (d doors, err error) {
	if d.api, err = n.deps.Listen(ctx, "tcp", n.cfg.Listen); err != nil {
		return d, fmt.Errorf("AQUIFER_LISTEN or PORT is %s: %w", n.cfg.Listen, err)
	}
	if err := n.tryGossip(); err != nil {
		return d, errors.Join(err, d.api.Close())
	}
	if n.cfg.Registry.URL != "" {
		if d.port, err = registry.AdvertisedPort(d.api.Addr()); err != nil {
			return d, errors.Join(err, d.api.Close())
		}
	}
	if n.cfg.DebugAddr == "" {
		return d, nil
	}
	if d.debug, err = n.deps.Listen(ctx, "tcp", n.cfg.DebugAddr); err != nil {
		err = fmt.Errorf("AQUIFER_DEBUG_ADDR is %s: %w", n.cfg.DebugAddr, err)
		return d, errors.Join(err, d.api.Close())
	}
	return d, nil
}

// tryGossip says whether the port to gossip at can be had. The gossip opens it when the node serves, which is too late to
// find out.
func (n *Node) tryGossip() error {
	c := n.cfg.Cluster
	if !c.Enabled || c.Provider != providerGossip {
		return nil
	}
	if err := gossip.Try(n.deps.Gossip, c.GossipBind); err != nil {
		return fmt.Errorf("AQUIFER_CLUSTER_GOSSIP_BIND is %s: %w", c.GossipBind, err)
	}
	return nil
}

// close gives ports back that no server has taken.
func (d doors) close() error {
	if d.debug == nil {
		return d.api.Close()
	}
	return errors.Join(d.api.Close(), d.debug.Close())
}

// work is what runs while a node serves.
type work struct {
	group *errgroup.Group
	// failed is closed when a part has ended by itself.
	failed <-chan struct{}
	// noTurns ends the starting of turns, noAttempts those that are open, noAgenda what runs
	// by the clock.
	noTurns, noAttempts, noAgenda context.CancelFunc
	noResume                      context.CancelFunc // and what goes on with an unfinished hand-over
	turns                         *errgroup.Group
	debug                         *http.Server
}

// start moves every part. It outlives the context of Run, because stopping goes in order.
func (n *Node) start(p *parts, d doors) *work {
	group, failed := errgroup.WithContext(context.Background())
	w := &work{group: group, failed: failed.Done(), turns: new(errgroup.Group)}

	var turning, planning context.Context
	turning, w.noTurns = context.WithCancel(context.Background())
	planning, w.noAgenda = context.WithCancel(context.Background())
	resuming, noResume := context.WithCancel(planning)
	w.noAttempts = p.stopAttempts

	w.turns.Go(func() error { return p.calls.Run(turning) })
	w.turns.Go(func() error { return p.deliveries.Run(turning) })
	group.Go(func() error { return p.agenda.Run(planning) })
	group.Go(func() error { return p.gate.Run(planning) })
	group.Go(func() error { return p.regime.run(planning) })
	group.Go(func() error { return p.cluster.run(planning, p.regime.divide) })
	resumed := make(chan struct{})
	group.Go(func() error {
		defer close(resumed)
		return p.moving.resume(resuming)
	})
	w.noResume = func() { noResume(); <-resumed }
	group.Go(func() error { return p.region.remind(planning, p.store) })
	if p.drain != nil {
		group.Go(func() error { return p.drain.Run(planning) })
	}
	if p.inbound != nil {
		group.Go(func() error { return p.inbound.Run(planning) })
	}
	group.Go(func() error { return served(p.server.Serve(d.api)) })
	if d.debug != nil {
		w.debug = newDebugServer()
		group.Go(func() error { return served(w.debug.Serve(d.debug)) })
	}
	return w
}

// served drops the error that says that a server was told to stop.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// closeDebug closes the server of profiles, if there is one.
func (w *work) closeDebug() error {
	if w.debug == nil {
		return nil
	}
	return w.debug.Close()
}
