package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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
	p.registered.drain()
	p.cluster.drain()
	log.Info("draining", "timeout", timeout.String())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	quiesce := min(n.cfg.ShutdownQuiesce(), patience/2)
	fade(ctx, p.server, quiesce)
	doors := make(chan error, 1)
	go func() { doors <- p.server.Shutdown(ctx) }()
	handed := 0
	if patience > 0 {
		handed = n.empty(ctx, p, w, max(timeout-closing, timeout/2)-quiesce)
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
	left := p.backlog() - handed
	telling, cancelTelling := context.WithTimeout(context.Background(), closing)
	defer cancelTelling()
	for _, s := range []step{
		{"ledger", func() error { return n.flush(p) }}, {"registration", p.registered.withdraw},
		{"region", func() error { p.region.close(); return nil }},
	} {
		errs = append(errs, s.within(telling, log))
	}
	errs = append(errs, step{"store", p.close}.alone(log))
	log.Info("stopped", "left_on_disk", left)
	return errors.Join(errs...)
}

// fade gives load balancers time to see the node leave. When they have had half of it, kept connections end: another
// node that uses one just then can still connect anew, and is told.
func fade(ctx context.Context, server *http.Server, quiesce time.Duration) {
	pause(ctx, quiesce/2)
	server.SetKeepAlivesEnabled(false)
	pause(ctx, quiesce-quiesce/2)
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

// alone does the step with a bound of its own, whatever those before it have taken.
func (s step) alone(log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return s.within(ctx, log)
}

// empty gives the work to others, if there are any, or lets it end, but takes no longer than limit. It returns how many
// jobs others have now.
func (n *Node) empty(ctx context.Context, p *parts, w *work, limit time.Duration) (handed int) {
	if p.moving == nil {
		p.settle(ctx, limit)
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return n.handOver(ctx, p, w)
}

// settle waits until nothing is being sent, queued or owed, but no longer than limit: jobs first,
// because each one that ends may owe a delivery. What waits for a retry does not count, nor what cannot start within limit.
func (p *parts) settle(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if p.calls.Settle(ctx) == nil {
		_ = p.deliveries.Settle(ctx) // at the limit the deliveries stay owed, on disk
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
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
