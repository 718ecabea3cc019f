package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Run opens the store, takes up what the last process left, serves until ctx ends or the store fails, and
// stops. A stop
// that meets its deadline is not an error: what is unfinished stays on disk for the next start. A node
// runs once: a second call returns ErrStarted.
func (n *Node) Run(ctx context.Context) error {
	if !n.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	log := n.deps.Logger
	parts, err := n.assemble(ctx)
	if err != nil {
		return err
	}
	found, err := parts.recovery().run(ctx)
	if err != nil {
		return errors.Join(err, parts.close())
	}
	log.Info("work taken up", "interrupted", found.interrupted, "queued", found.calls,
		"deliveries", found.deliveries, "retries", found.waiting)

	listener, err := n.deps.Listen(ctx, "tcp", n.cfg.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("AQUIFER_LISTEN or PORT is %s: %w", n.cfg.Listen, err), parts.close())
	}
	debug, err := n.listenDebug(ctx)
	if err != nil {
		return errors.Join(err, listener.Close(), parts.close())
	}
	n.addr = listener.Addr()
	log.Info("serving", "address", n.addr.String(), "node_id", n.cfg.NodeID)

	work := n.start(parts, listener, debug)
	close(n.ready)
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

// work is what runs while a node serves.
type work struct {
	group *errgroup.Group
	// failed is closed when a part has ended by itself.
	failed <-chan struct{}
	// noTurns ends the starting of turns, noAttempts those that are open, noAgenda the agenda.
	noTurns, noAttempts, noAgenda context.CancelFunc
	turns                         *errgroup.Group
	debug                         *http.Server
}

// start moves every part. It outlives the context of Run, because stopping goes in order.
func (n *Node) start(p *parts, listener, debug net.Listener) *work {
	group, failed := errgroup.WithContext(context.Background())
	w := &work{group: group, failed: failed.Done(), turns: new(errgroup.Group)}

	var turning, planning context.Context
	turning, w.noTurns = context.WithCancel(context.Background())
	planning, w.noAgenda = context.WithCancel(context.Background())
	w.noAttempts = p.stopAttempts

	w.turns.Go(func() error { return p.calls.Run(turning) })
	w.turns.Go(func() error { return p.deliveries.Run(turning) })
	group.Go(func() error { return p.agenda.Run(planning) })
	group.Go(func() error { return served(p.server.Serve(listener)) })
	if debug != nil {
		w.debug = newDebugServer()
		group.Go(func() error { return served(w.debug.Serve(debug)) })
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

func (n *Node) listenDebug(ctx context.Context) (net.Listener, error) {
	if n.cfg.DebugAddr == "" {
		return nil, nil
	}
	l, err := n.deps.Listen(ctx, "tcp", n.cfg.DebugAddr)
	if err != nil {
		return nil, fmt.Errorf("AQUIFER_DEBUG_ADDR is %s: %w", n.cfg.DebugAddr, err)
	}
	return l, nil
}

// closeDebug closes the server of profiles, if there is one.
func (w *work) closeDebug() error {
	if w.debug == nil {
		return nil
	}
	return w.debug.Close()
}
