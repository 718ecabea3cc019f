package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// The target of most scenes. Its answers take long enough for calls to overlap.
const (
	moderateRPS   = 50
	moderateSlots = 8
	moderateTime  = 20 * time.Millisecond
)

// exact has one target called for the jobs of so many tenants.
func (c *paceCmd) exact(ctx context.Context, scale paceScale, tenants int) (act, error) {
	p := play{rps: moderateRPS, slots: moderateSlots, targets: 1, takes: always(moderateTime)}
	p.jobs = max(tenants, enough(p.rps, scale.time))
	name := fmt.Sprintf("%d/s, tenants: %d", moderateRPS, tenants)
	return c.steady(ctx, p, steadiness{name: name, tenants: tenants, time: scale.time, least: 0.99})
}

// high has one target called as often as a busy one is.
func (c *paceCmd) high(ctx context.Context, scale paceScale) (act, error) {
	p := play{rps: scale.high, slots: 64, targets: 1, takes: always(0)}
	span := max(scale.time/2, 2*time.Second)
	p.jobs = enough(p.rps, span)
	return c.steady(ctx, p, steadiness{name: fmt.Sprintf("%g/s", p.rps), tenants: 10, time: span, least: 0.98})
}

// many has many targets called once a second. Their answers take from 0 to 0.9 s, so that they are not
// all called at the same moment.
func (c *paceCmd) many(ctx context.Context, scale paceScale) (act, error) {
	p := play{rps: 1, slots: 1, targets: scale.targets}
	p.takes = func(seq int) time.Duration {
		return 900 * time.Millisecond * time.Duration(seq%p.targets) / time.Duration(p.targets)
	}
	span := max(scale.time/2, 3*time.Second)
	p.jobs = enough(p.rps, span) * p.targets
	return c.steady(ctx, p, steadiness{name: fmt.Sprintf("%d targets, 1/s each", p.targets), tenants: 10, time: span, least: 0.95})
}

// enough is how many jobs a target never runs out of.
func enough(rps float64, span time.Duration) int {
	return int(1.1*rps*span.Seconds()) + 2*moderateSlots
}

// steadiness is how a scene of constant rates is looked at.
type steadiness struct {
	name    string
	tenants int
	time    time.Duration
	least   float64 // part of the rate that must be reached
}

// steady queues all jobs before the first is answered, and then looks at when calls come.
func (c *paceCmd) steady(ctx context.Context, p play, how steadiness) (act, error) {
	var a act
	err := c.perform(ctx, p, func(ctx context.Context, s *stage) error {
		if err := s.queue(ctx, p.jobs, how.tenants, 0); err != nil {
			return err
		}
		s.open()
		v, err := s.watch(ctx, how.time)
		if err != nil {
			return err
		}
		a = s.shows(how.name, v, p.targets)
		a.Promises = p.keeps(a, how.least)
		return nil
	})
	return a, err
}

// shows is what was seen at so many targets.
func (s *stage) shows(name string, v view, targets int) act {
	a := act{
		Scene: name, Calls: len(v.calls), Seconds: v.span.Seconds(), MostOpen: s.target.most(), Cores: v.cores, Waited: v.waited,
		Rate: perSecond(len(v.calls), v.span),
	}
	for _, calls := range byTarget(v.calls, targets) {
		a.Most = max(a.Most, mostInASecond(calls))
	}
	return a
}

// byTarget parts calls by their target: jobs go to the targets in turn.
func byTarget(calls []arrival, targets int) [][]arrival {
	parts := make([][]arrival, targets)
	for _, call := range calls {
		i := call.seq % targets
		parts[i] = append(parts[i], call)
	}
	return slices.DeleteFunc(parts, func(part []arrival) bool { return part == nil })
}

// keeps sets what was seen beside what the play allows.
func (p play) keeps(a act, least float64) []promise {
	bound := allowed(p.rps)
	all := p.rps * float64(p.targets)
	return []promise{
		reported(atMost("", "calls in a second", float64(a.Most), bound)),
		// A call that was delayed on its way is open meanwhile, and no more can be open than there are slots.
		judged(atMost("", "the same, with calls delayed on their way", float64(a.Most), bound+float64(p.slots))),
		judged(atMost("", "calls open", float64(a.MostOpen), float64(p.slots*p.targets))),
		reported(atLeast("", "calls per second", a.Rate, least*all)),
		reported(atMost("", "calls per second", a.Rate, 1.02*all)),
	}
}
