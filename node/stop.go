package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// closing is how much of the shutdown time is kept for what comes once the waiting for work is over; of less than twice as
// much time it is half.
const closing = 5 * time.Second

// closingStep bounds each of the four parts of that, also when there is more time.
const closingStep = 3 * time.Second

// schedule is when each part of a stop must be over.
type schedule struct {
	work    time.Time // the waiting for work to end
	ending  time.Time // what is cut then, until it is recorded; and the answers that callers still read
	serving time.Time // the servers, whose connections are closed by force
	telling time.Time // of other systems
	store   time.Time // all of it: the last fifth of the closing is for the store alone
}

// newSchedule divides the time of a stop. Without patience there is none for work.
func newSchedule(now time.Time, limit, patience time.Duration) schedule {
	kept := min(closing, limit)
	if patience > 0 {
		kept = min(closing, limit/2)
	}
	end := now.Add(limit)
	return schedule{work: end.Add(-kept), ending: end.Add(-kept / 2), serving: end.Add(-kept * 2 / 5), telling: end.Add(-kept / 5), store: end}
}

// stop ends the node in the order in which nothing gets lost: refuse, let load balancers see it, close
// the port, let the work end, cut what is left, close. Each step is bounded, and one that fails
// does not keep the next from its turn.
//
// patience is how long it takes at the most; 0 for a node that cannot record what ends, which waits for no work.
func (n *Node) stop(p *parts, w *work, patience time.Duration) error {
	log, limit := n.deps.Logger, cmp.Or(patience, min(closing, n.cfg.ShutdownTimeout()))
	plan := newSchedule(time.Now(), limit, patience)
	working, cancel := context.WithDeadline(context.Background(), plan.work)
	defer cancel()
	n.draining.Store(true)
	p.registered.drain()
	p.cluster.drain(working)
	log.Info("draining", "timeout", limit.String())

	fade(working, p.server, min(n.cfg.ShutdownQuiesce(), patience/2))
	serving, cut := context.WithCancel(context.Background())
	defer cut()
	answered := async(func() { _ = p.server.Shutdown(serving) }) // what it leaves open is closed below
	var handed atomic.Int64
	emptied := async(func() {
		if patience > 0 {
			handed.Store(int64(n.empty(working, p, w)))
		}
	})
	select {
	case <-emptied:
	case <-working.Done(): // it says by itself what it has not done
	}

	w.noTurns()
	w.noAgenda()
	p.hub.CloseAll()
	w.noAttempts()
	errs := inTurn(plan.ending, log,
		step{"turns", w.turns.Wait},
		step{"endings", func() error { p.ending.Wait(); return nil }},
		step{"work", func() error { <-emptied; return nil }}, // it may still record what a peer has said
		step{"requests", func() error { <-answered; return nil }})
	cut()
	servers := inTurn(plan.serving, log,
		step{"server", p.server.Close}, step{"debug server", w.closeDebug}, step{"parts", w.group.Wait})
	left := p.backlog() - int(handed.Load())
	telling := inTurn(plan.telling, log,
		step{"ledger", func() error { return n.flush(p, min(time.Until(plan.telling), closingStep)/2) }}, // the rest is for the others
		step{"registration", p.registered.withdraw},
		step{"region", func() error { p.region.close(); return nil }})
	store := inTurn(plan.store, log, step{"store", p.close})
	log.Info("stopped", "left_on_disk", left)
	return errors.Join(errs, servers, telling, store)
}

// inTurn does steps of the closing one after the other, together no longer than until end.
func inTurn(end time.Time, log *slog.Logger, steps ...step) error {
	ctx, cancel := context.WithTimeout(context.Background(), min(time.Until(end), closingStep))
	defer cancel()
	var errs []error
	for _, s := range steps {
		errs = append(errs, s.within(ctx, log))
	}
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

// empty gives the work to others, or lets it end while there are none, until ctx ends. It returns how many jobs others
// have now.
func (n *Node) empty(ctx context.Context, p *parts, w *work) (handed int) {
	if p.moving.alone() {
		p.settle(ctx)
	}
	if p.moving.alone() {
		return 0
	}
	return n.handOver(ctx, p, w)
}

// settle waits until nothing is being sent, queued or owed, or ctx ends: jobs first, because each one that ends may owe a
// delivery. What waits for a retry does not count, nor what cannot start before the end of ctx.
func (p *parts) settle(ctx context.Context) {
	if p.calls.Settle(ctx) == nil {
		_ = p.deliveries.Settle(ctx) // at the end of ctx the deliveries stay owed, on disk
	}
}

// async does something beside, and returns what is closed when it is done.
func async(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	return done
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
