package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// regime is what holds for each target and each receiver: what the file says, and for targets what operators have
// ordered in place of that. It tells the queues when it changes.
type regime struct {
	store  store.Overrides
	logger *slog.Logger
	pacing PacingConfig
	// cooldown is that of all breakers.
	cooldown pace.Cooldown
	queues   []*queue.Queue // set before anything changes

	// ordering is of one, and full while an order is recorded: they take effect in the order in which they are stored, and
	// those that wait for their turn have begun nothing yet.
	ordering chan struct{}
	// wake is of one: there is another limit that runs out.
	wake chan struct{}

	mu       sync.RWMutex // guards what follows
	targets  Targets
	webhooks Targets
	orders   map[string]store.Override // by host
	nodes    int                       // that divide what is shared; 0: they are not known yet
}

func newRegime(c *Config, s store.Overrides, logger *slog.Logger) *regime {
	return &regime{
		store: s, logger: logger, pacing: c.Pacing, cooldown: c.cooldown(), wake: make(chan struct{}, 1), ordering: make(chan struct{}, 1),
		targets: c.Targets, webhooks: c.Webhooks, orders: map[string]store.Override{}, nodes: 1,
	}
}

// cooldown is how long breakers stay open. What a target says is capped as it is for its jobs.
func (c *Config) cooldown() pace.Cooldown {
	return pace.Cooldown{
		Default: seconds(c.Breaker.CooldownSeconds), Multiplier: c.Breaker.RetryMultiplier, RetryAfterMax: c.RetryAfterMax(),
	}
}

// load reads the orders that are stored.
func (r *regime) load(ctx context.Context) error {
	orders, err := r.store.Overrides(ctx, time.Now())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders = orders
	return nil
}

// target is what the file says of a target.
func (r *regime) target(host string) Target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.targets.For(host)
}

// receiver is what the file says of a webhook receiver.
func (r *regime) receiver(host string) Target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.webhooks.For(host)
}

func (r *regime) paused(host string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.orders[host].Paused
}

// targetSettings is a target's pace as a queue has it. What is ordered is for this node alone, and so it is not divided.
func (r *regime) targetSettings(host string) pace.Settings {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, o := r.settings(r.targets.For(host)), r.orders[host].At(time.Now())
	if o.RPS > 0 {
		s.RPS, s.Parts.RPS = o.RPS, 1
	}
	if o.MaxConcurrent > 0 {
		s.MaxConcurrent, s.Parts.MaxConcurrent = o.MaxConcurrent, 1
	}
	return s
}

// receiverSettings is a webhook receiver's pace as a queue has it.
func (r *regime) receiverSettings(host string) pace.Settings {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.settings(r.webhooks.For(host))
}

// settings is what the file says as a pace; r.mu is held.
func (r *regime) settings(t Target) pace.Settings {
	s := pace.Settings{
		RPS: t.RPS, MaxConcurrent: t.MaxConcurrent, SlowStart: t.SlowStart, Parts: pace.Parts{RPS: 1, MaxConcurrent: 1},
		HintTTL: r.pacing.HintTTL(), Idle: r.pacing.Idle(), Breaker: r.cooldown,
	}
	if t.Shared {
		s.Parts = r.parts()
	}
	if t.ShareByUse {
		s.Fairness = pace.ByUse
	}
	return s
}

// storing is how long an order is waited for.
const storing = 10 * time.Second

// order is what an operator wants of a host.
type order struct {
	host   string
	change func(*store.Override) // of what is ordered already
	afresh bool                  // tenants that were slowed down are so no longer
}

// order records an order and puts it into effect; one that does not have its turn in time is not taken. What is begun ends
// when the store answers, also if nobody waits for it any more: what is in force is what is stored.
func (r *regime) order(ctx context.Context, o order) error {
	done := make(chan error, 1)
	lasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, storing)
	defer cancel()
	select {
	case r.ordering <- struct{}{}:
	case <-ctx.Done():
		return &fault.Error{
			Kind: fault.Unavailable, Detail: "the order before this one is not stored yet: this one is not taken", RetryAfter: storing, Err: ctx.Err(),
		}
	}
	go func() {
		defer func() { <-r.ordering }()
		done <- r.carryOut(lasting, o)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &fault.Error{
			Kind: fault.Unavailable, Detail: "the order is not stored yet, and takes effect when it is", RetryAfter: time.Second, Err: ctx.Err(),
		}
	}
}

func (r *regime) carryOut(ctx context.Context, given order) error {
	host := given.host
	o := r.ordered(host)
	given.change(&o)
	o.SetAt = time.Now().UnixMilli()
	if o.Empty() {
		o = store.Override{}
	}
	if err := r.roomFor(host, o); err != nil {
		return err
	}
	if err := r.store.Override(ctx, host, o); err != nil {
		return &fault.Error{Kind: fault.Unavailable, Detail: "the order cannot be stored now", RetryAfter: time.Second, Err: err}
	}
	r.mu.Lock()
	r.orders = maps.Clone(r.orders)
	r.orders[host] = o
	if o.Empty() {
		delete(r.orders, host)
	}
	r.mu.Unlock()
	r.logger.Info("target ordered", "host", host, "paused", o.Paused, "rps", o.RPS, "max_concurrent", o.MaxConcurrent,
		"until", o.LimitsUntil)
	r.tell(func(h string) bool { return given.afresh && h == host })
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// maxOrders bounds for how many hosts there are orders: they are kept for ever, and whoever reaches the node can give some.
const maxOrders = 1000

// roomFor refuses an order for one host more than there may be.
func (r *regime) roomFor(host string, o store.Override) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, there := r.orders[host]; there || o.Empty() || len(r.orders) < maxOrders {
		return nil
	}
	return &fault.Error{
		Kind:   fault.Overloaded,
		Detail: fmt.Sprintf("there are orders for %d hosts, of %d; resume a target or take limits back", len(r.orders), maxOrders),
		Limit:  &fault.Limit{Reason: "orders", Limit: maxOrders, Current: int64(len(r.orders))},
	}
}

// ordered is the order that is in force for a host.
func (r *regime) ordered(host string) store.Override {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.orders[host].At(time.Now())
}

// orderedHosts are the hosts for which an order is in force.
func (r *regime) orderedHosts() map[string]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	hosts := map[string]bool{}
	for host, o := range r.orders {
		if !o.At(time.Now()).Empty() {
			hosts[host] = true
		}
	}
	return hosts
}

// reload takes over what the file says now.
func (r *regime) reload(targets, webhooks Targets) {
	r.mu.Lock()
	r.targets, r.webhooks = targets, webhooks
	r.mu.Unlock()
	r.warnOfSlots()
	r.tell(nil)
}

// tell has the queues ask again. Tenants start afresh where something has changed, and at the hosts that renew tells.
func (r *regime) tell(renew func(host string) bool) {
	for _, q := range r.queues {
		q.Reconfigure(renew)
	}
}

// run ends limits when their time is over, until ctx ends.
func (r *regime) run(ctx context.Context) error {
	for {
		timer := time.NewTimer(r.untilNext(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.wake:
			timer.Stop()
		case <-timer.C:
			r.expire(time.Now())
		}
	}
}

// longest is how long the regime sleeps when nothing runs out.
const longest = time.Hour

// untilNext is how long until the next limit runs out.
func (r *regime) untilNext(now time.Time) time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	wait := longest
	for _, o := range r.orders {
		if o.LimitsUntil != 0 {
			wait = min(wait, max(time.UnixMilli(o.LimitsUntil).Sub(now), 0))
		}
	}
	return wait
}

// expire forgets limits whose time is over. The store leaves them out by itself.
func (r *regime) expire(now time.Time) {
	r.mu.Lock()
	left := make(map[string]store.Override, len(r.orders))
	for host, o := range r.orders {
		if o = o.At(now); !o.Empty() {
			left[host] = o
		}
	}
	r.orders = left
	r.mu.Unlock()
	r.tell(nil)
}

// hostOf is the host of a queue's target.
func hostOf(target string) string { return job.Lane{Target: target}.Host() }
