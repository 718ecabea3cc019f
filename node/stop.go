package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// closing is how much of the shutdown time is kept for closing once the waiting for work is over.
const closing = 3 * time.Second

// stop ends the node in the order in which nothing gets lost: refuse, let load balancers see it, close
// the port, let the work end, cut what is left, close. Each step is bounded, and one that fails
// does not keep the next from its turn.
//
// patience is how long it waits for work to end; 0 for a node that cannot record what ends.
func (n *Node) stop(p *parts, w *work, patience time.Duration) error {
	log, timeout := n.deps.Logger, patience
	if timeout == 0 {
		timeout = closing
	}
	n.draining.Store(true)
	log.Info("draining", "timeout", timeout.String())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	pause(ctx, min(n.cfg.ShutdownQuiesce(), patience))
	doors := make(chan error, 1)
	go func() { doors <- p.server.Shutdown(ctx) }()
	if patience > 0 {
		p.settle(ctx, max(timeout-closing, timeout/2)-n.cfg.ShutdownQuiesce())
	}

	w.noTurns()
	w.noAgenda()
	p.hub.CloseAll()
	w.noAttempts()
	steps := []step{
		{"turns", w.turns.Wait},
		{"endings", func() error { p.ending.Wait(); return nil }},
		{"server", func() error { return orElse(<-doors, p.server.Close) }},
		{"debug server", w.closeDebug},
		{"parts", w.group.Wait},
	}
	var errs []error
	ending, cancelEnding := context.WithTimeout(context.Background(), closing)
	defer cancelEnding()
	for _, s := range steps {
		errs = append(errs, s.within(ending, log))
	}
	left := p.calls.Stats().Backlog + p.deliveries.Stats().Backlog
	last, cancelLast := context.WithTimeout(context.Background(), closing)
	defer cancelLast()
	errs = append(errs, step{"store", p.close}.within(last, log))
	log.Info("stopped", "left_on_disk", left)
	return errors.Join(errs...)
}

// step is one named step of stopping.
type step struct {
	name string
	do   func() error
}

// within does the step, but waits for it no longer than until ctx ends: a stop that meets its deadline
// is no failure, as everything is on disk.
func (s step) within(ctx context.Context, log *slog.Logger) error {
	done := make(chan error, 1)
	go func() { done <- s.do() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("stop %s: %w", s.name, err)
		}
		return nil
	case <-ctx.Done():
		log.Warn("not stopped in time", "step", s.name)
		return nil
	}
}

// settle waits until nothing is being sent, queued or owed, but no longer than limit: jobs first,
// because each one that ends may owe a delivery. What waits for a retry does not count.
func (p *parts) settle(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if p.calls.WaitIdle(ctx) == nil {
		_ = p.deliveries.WaitIdle(ctx) // at the limit the deliveries stay owed, on disk
	}
}

// orElse does something else about an error.
func orElse(err error, otherwise func() error) error {
	if err == nil {
		return nil
	}
	return otherwise()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
