package node

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// targetDesk shows targets to operators, and takes their orders.
type targetDesk struct {
	regime *regime
	calls  *queue.Queue
}

// Targets is api.Targets.
func (d *targetDesk) Targets() []api.Target {
	var all []api.Target
	unmet := d.regime.orderedHosts()
	for _, v := range d.calls.Views() {
		host := hostOf(v.Target)
		all = append(all, d.show(host, v))
		delete(unmet, host)
	}
	for _, host := range slices.Sorted(maps.Keys(unmet)) {
		all = append(all, d.unmet(host))
	}
	return all
}

// unmet shows the order for a host at which no target is known.
func (d *targetDesk) unmet(host string) api.Target {
	b := pace.NewBudget(d.regime.targetSettings(host))
	return d.show(host, queue.View{Paused: d.regime.paused(host), Limits: b.Limits(time.Now())})
}

// shownQueues bounds how many queues of a target are shown.
const shownQueues = 100

// Target is api.Targets.
func (d *targetDesk) Target(host string) []api.Target {
	var found []api.Target
	for _, name := range job.TargetsAt(host) {
		v, lanes, ok := d.calls.View(name, shownQueues)
		if !ok {
			continue
		}
		t := d.show(host, v)
		for _, l := range lanes {
			t.Queues = append(t.Queues, showQueue(l))
		}
		found = append(found, t)
	}
	if found == nil && !d.regime.ordered(host).Empty() {
		found = append(found, d.unmet(host))
	}
	return found
}

// Pause is api.Targets.
func (d *targetDesk) Pause(ctx context.Context, host string, paused bool) error {
	return d.regime.order(ctx, order{host: host, change: func(o *store.Override) { o.Paused = paused }})
}

// Limit is api.Targets.
func (d *targetDesk) Limit(ctx context.Context, host string, limits store.Override) error {
	return d.regime.order(ctx, order{host: host, afresh: true, change: func(o *store.Override) {
		o.RPS, o.MaxConcurrent, o.LimitsUntil = limits.RPS, limits.MaxConcurrent, limits.LimitsUntil
	}})
}

func (d *targetDesk) show(host string, v queue.View) api.Target {
	t := api.Target{
		Target: v.Target, Host: host, State: "running", RPS: showLevel(v.Limits.RPS), MaxConcurrent: showLevel(v.Limits.MaxConcurrent),
		Shared: d.regime.shared(host), SlowStart: v.Limits.SlowStart, Breaker: showBreaker(v.Breaker, time.Now()),
		Backlog: v.Backlog, InFlight: v.InFlight, ActiveQueues: v.Lanes,
	}
	if v.Paused {
		t.State = "paused"
	}
	if q := v.Limits.AccountQueue; q.Given() {
		t.AccountQueue = "disabled"
		if q.Value {
			t.AccountQueue = "enabled"
		}
	}
	if b := v.Limits.MaxBacklog; b.Given() {
		t.MaxBacklog = &b.Value
	}
	if o := d.regime.ordered(host); !o.Empty() {
		t.Ordered = &api.Ordered{
			Paused: o.Paused, RPS: o.RPS, MaxConcurrent: o.MaxConcurrent, Until: o.LimitsUntil, At: o.SetAt,
		}
	}
	return t
}

func showLevel(l pace.Level) api.Limit {
	shown := api.Limit{Effective: l.Value, Configured: l.Configured, Source: l.Source}
	if !l.HeardAt.IsZero() {
		shown.Learned, shown.Since, shown.Stale = &l.Said, l.HeardAt.UnixMilli(), l.Stale
	}
	return shown
}

func showBreaker(b pace.Breaker, now time.Time) api.Breaker {
	kind, until := b.Open(now)
	if kind == pace.BreakerClosed {
		return api.Breaker{State: kind.String()}
	}
	reason, since := b.Why()
	return api.Breaker{
		State: "open", Kind: kind.String(), Reason: reason.String(), Since: since.UnixMilli(), Until: until.UnixMilli(),
	}
}

func showQueue(l queue.LaneView) api.QueueView {
	v := api.QueueView{Tenant: hex.EncodeToString(l.Tenant[:]), Backlog: l.Backlog, RPS: l.OwnRate}
	if l.Tenant == (job.Tenant{}) {
		v.Tenant = "shared"
	}
	if l.CoolsUntil.After(time.Now()) {
		v.CoolsUntil = l.CoolsUntil.UnixMilli()
	}
	return v
}

// standing says where a job waits.
func (d *targetDesk) standing(ctx context.Context, e job.Entry) (api.Standing, bool, error) {
	s, ok, err := d.calls.Standing(ctx, e)
	return api.Standing{Position: s.Position, ETA: s.ETA, For: s.For.String(), Since: s.Since}, ok, err
}
