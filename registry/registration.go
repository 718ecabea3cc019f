// Package registry tells a control plane, such as Canalis, that this node is there, and tells it off when
// the node leaves.
//
// A registration is a ping that is repeated: whoever hears none for a while takes the node for gone. So
// a ping that fails is repeated sooner, and every ping says everything: a control plane that has
// forgotten the node, or has just started, knows it again with the next one. Nothing waits for a ping,
// and a control plane that fails, hangs or answers nonsense costs the node a few requests a minute and
// a bounded moment at its end.
//
// It does not find out the node's address (the control plane sees where the ping comes from), and
// hears no commands: what an answer says beyond its status is ignored.
package registry

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"
)

// State is what a node says of itself. It only goes forward.
type State string

// The states of a node, in their order.
const (
	Active   State = "active"   // takes new work
	Draining State = "draining" // takes no new work, and finishes what it has
	Offline  State = "offline"  // is about to end
)

// ErrStarted is the error of a second Run.
var ErrStarted = errors.New("registry: already started")

// Registration is the registration of one node. Its methods are safe for concurrent use.
type Registration struct {
	Config
	to      *url.URL // Config.URL
	metrics metrics

	started atomic.Bool
	// serving ends with the first call of drain.
	serving context.Context
	drain   context.CancelFunc
}

// New returns a registration; nothing is sent yet. The error lists everything that is wrong with c, by
// the names of the settings.
func New(c Config) (*Registration, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	r := &Registration{Config: c, to: to, metrics: newMetrics(c.Registerer)}
	r.serving, r.drain = context.WithCancel(context.Background())
	return r, nil
}

// Drain says that the node takes no new work any more. It returns at once, and the control plane is told
// at once if Run runs; a ping that hangs in that moment delays it by a quarter of Config.Withdrawal. Calls after
// the first one do nothing.
func (r *Registration) Drain() { r.drain() }

// Run registers the node and keeps it registered until ctx ends, withdraws it, and returns. After the end
// of ctx it takes no longer than Config.Withdrawal. A control plane that fails is not an error: the only
// one is ErrStarted, of a second call.
func (r *Registration) Run(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	if r.Interval >= Expiry {
		r.Logger.Warn("registrations lapse between two pings if the control plane is Canalis",
			"interval", r.Interval.String(), "expiry", Expiry.String())
	}
	if ctx.Err() == nil {
		r.report(ctx)
	}
	return nil
}

// report tells one state after the other.
func (r *Registration) report(ctx context.Context) {
	ending, cancel := lasting(ctx, r.Withdrawal/2)
	defer cancel()
	if r.serving.Err() == nil {
		r.keepActive(ctx)
	}
	if r.serving.Err() != nil { // told once, even if the end has come meanwhile
		r.keep(ctx, ending, Draining)
	}
	r.withdraw(context.WithoutCancel(ctx))
}

func (r *Registration) keepActive(ctx context.Context) {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(r.serving, stop)
	sending, cancel := lasting(serving, r.Withdrawal/4)
	defer cancel()
	r.keep(serving, sending, Active)
}

// keep repeats the ping that says state until ctx ends; Draining is said at least once. One that is under way then may
// still be answered until sending ends, so that it does not arrive after the ping that says the next state.
func (r *Registration) keep(ctx, sending context.Context, state State) {
	h := history{log: r.Logger.With("state", string(state))}
	for owed := state == Draining; owed || ctx.Err() == nil; owed = false {
		due := time.Now().Add(beat(r.Interval, r.Jitter()))
		if r.introduce(ctx); ctx.Err() != nil && !owed {
			return
		}
		err := r.ping(sending, state)
		if err != nil && ctx.Err() != nil {
			return // there is something newer to say
		}
		r.metrics.count(state, err)
		h.add(err)
		wait := time.Until(due)
		if h.failures > 0 {
			wait = backoff(h.failures, r.Interval, r.Jitter())
		}
		pause(ctx, wait)
	}
}

// withdraw says once that the node is gone. Nobody is introduced for a last word.
func (r *Registration) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Withdrawal/2, errTimeout)
	defer cancel()
	err := r.ping(ctx, Offline)
	r.metrics.count(Offline, err)
	if err != nil {
		r.Logger.Warn("not withdrawn from the registry, which will notice by itself", "error", err)
		return
	}
	r.Logger.Info("withdrawn from the registry")
}

// The bounds of one attempt. A ping that hangs is given up when the next one is due, so that one lost
// connection does not cost the registration; 30 s is the limit of a synchronous delivery.
const (
	minAttempt = 5 * time.Second
	maxAttempt = 30 * time.Second
)

func attemptLimit(interval time.Duration) time.Duration {
	return min(max(interval, minAttempt), maxAttempt)
}

// beat is how long after the start of a ping the next one starts: up to a tenth earlier than the interval,
// so that nodes that were started together part, and never later.
func beat(interval time.Duration, jitter float64) time.Duration {
	return interval - time.Duration(jitter*float64(interval)/10)
}

const firstRetry = time.Second

// backoff is the wait after a number of failures in a row: 1 s, doubled each time up to a third of the
// interval, and up to a tenth more. So a control plane that was away for two intervals has each node back
// before a registration of three intervals lapses.
func backoff(failures int, interval time.Duration, jitter float64) time.Duration {
	limit, wait := max(interval/3, firstRetry), firstRetry
	for ; failures > 1 && wait < limit; failures-- {
		wait *= 2
	}
	wait = min(wait, limit)
	return wait + time.Duration(jitter*float64(wait)/10)
}

// lasting returns a context that ends a while after ctx.
func lasting(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(while, cancel) })
	return late, cancel
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
