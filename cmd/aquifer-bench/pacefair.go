package main

import (
	"context"
	"fmt"
	"time"
)

// burst has one tenant with very many jobs waiting, when another one queues ten, again and again.
func (c *paceCmd) burst(ctx context.Context, scale paceScale) (act, error) {
	const few = 10
	p := play{rps: moderateRPS, slots: moderateSlots, targets: 1, takes: always(moderateTime), jobs: scale.queued + scale.bursts*few}
	var a act
	err := c.perform(ctx, p, func(ctx context.Context, s *stage) error {
		s.open()
		if err := s.queue(ctx, scale.queued, 1, 0); err != nil {
			return err
		}
		begin, err := s.mark()
		if err != nil {
			return err
		}
		worst := 0
		for range scale.bursts {
			first := s.queued
			if err := s.queue(ctx, few, 1, 1); err != nil {
				return err
			}
			before := s.target.count()
			// Twenty dispatches are 0.4 s; a newcomer that is not served meanwhile shows as late.
			if _, err := s.watch(ctx, time.Second); err != nil {
				return err
			}
			calls := s.target.since(0)
			newcomer := func(seq int) bool { return seq >= first }
			if n := countOf(calls, newcomer); n < few {
				return fmt.Errorf("%w: %d of %d jobs of the newcomer were called within a second", errPace, n, few)
			}
			worst = max(worst, late(calls, before, newcomer))
		}
		v, err := s.view(begin)
		if err != nil {
			return err
		}
		a = s.shows(fmt.Sprintf("%d jobs, and bursts of %d", scale.queued, few), v, 1)
		a.Promises = []promise{judged(atMost("", "dispatches after its turn", float64(worst), 2))}
		return nil
	})
	return a, err
}

func countOf(calls []arrival, which func(seq int) bool) int {
	n := 0
	for _, call := range calls {
		if which(call.seq) {
			n++
		}
	}
	return n
}

// slow has two tenants with much to do, of which the calls of one take a hundred times longer.
func (c *paceCmd) slow(ctx context.Context, scale paceScale) (act, error) {
	const fast = 10 * time.Millisecond
	p := play{rps: moderateRPS, slots: moderateSlots, targets: 1}
	each := enough(p.rps, scale.time)
	p.jobs = 2 * each
	p.takes = func(seq int) time.Duration {
		if seq < each {
			return 100 * fast
		}
		return fast
	}
	var a act
	err := c.perform(ctx, p, func(ctx context.Context, s *stage) error {
		for tenant := range 2 {
			if err := s.queue(ctx, each, 1, tenant); err != nil {
				return err
			}
		}
		s.open()
		v, err := s.watch(ctx, max(scale.time, 3*time.Second))
		if err != nil {
			return err
		}
		a = s.shows("calls 100 times slower than another tenant's", v, 1)
		share := float64(countOf(v.calls, func(seq int) bool { return seq >= each })) / float64(max(len(v.calls), 1))
		a.Promises = []promise{
			judged(atMost("", "calls open", float64(a.MostOpen), float64(p.slots))),
			judged(atLeast("", "share of the fast tenant", share, 0.45)),
			judged(atMost("", "share of the fast tenant", share, 0.55)),
		}
		return nil
	})
	return a, err
}
