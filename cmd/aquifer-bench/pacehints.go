package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// What the target of the hints asks for, in calls per second.
const (
	hintLow  = 5
	hintHigh = 20
)

// climb is how long the node takes at most from hintLow to hintHigh, by 5 % for each call that succeeds: 29 calls,
// 3.2 s.
const climb = 4 * time.Second

// half is the part of the sequence that is shown.
const half = 500 * time.Millisecond

// hints has a target that asks for fewer calls while it is being called, then for more, for fewer again,
// and then says nothing any more.
func (c *paceCmd) hints(ctx context.Context, scale paceScale) (act, error) {
	span := scale.hint + 3*scale.hint + climb + scale.faster
	p := play{
		rps: moderateRPS, slots: moderateSlots, targets: 1, takes: always(moderateTime), jobs: enough(moderateRPS, span),
		env: map[string]string{"AQUIFER_HINT_TTL_SECONDS": "1"}, // for the end to come soon
	}
	var a act
	err := c.perform(ctx, p, func(ctx context.Context, s *stage) error {
		if err := s.queue(ctx, p.jobs, 10, 0); err != nil {
			return err
		}
		s.open()
		begin, err := s.mark()
		if err != nil {
			return err
		}
		if _, err := s.watch(ctx, scale.hint); err != nil {
			return err
		}
		low, err := s.hint(ctx, hintLow, scale.hint)
		if err != nil {
			return err
		}
		high, err := s.hint(ctx, hintHigh, scale.hint+climb)
		if err != nil {
			return err
		}
		if _, err := s.hint(ctx, hintLow, scale.hint); err != nil {
			return err
		}
		silent, err := s.hint(ctx, 0, scale.faster)
		if err != nil {
			return err
		}
		v, err := s.view(begin)
		if err != nil {
			return err
		}
		a = s.shows("hints", v, 1)
		a.Sequence = ratesOf(v.calls, v.begin, v.span, half)
		a.Promises = p.follows(low, high, silent)
		return nil
	})
	return a, err
}

// hint has the target ask for a rate, or for none, and returns what comes from the first answer on
// that does.
func (s *stage) hint(ctx context.Context, rps int, d time.Duration) (view, error) {
	header := ""
	if rps > 0 {
		header = fmt.Sprintf("X-Aqueduct-Rps: %d", rps)
	}
	s.target.say(header)
	v, err := s.watch(ctx, d)
	if err != nil {
		return v, err
	}
	first := s.target.firstSaid()
	if first == 0 {
		return v, fmt.Errorf("%w: no call came within %s", errPace, d)
	}
	v.span -= time.Duration(first - v.begin)
	v.begin, v.calls = first, between(v.calls, first, math.MaxInt64)
	return v, nil
}

// follows sets what came after the target asked for less, for more, and for nothing, beside what must.
func (p play) follows(low, high, silent view) []promise {
	interval := time.Second / hintLow
	at := low.begin + int64(interval)
	settled := between(low.calls, at, low.begin+int64(low.span))
	// One call may be on its way when the answer is, and one is due.
	down := len(between(low.calls, low.begin, at))
	// The hint is last heard when the silence begins, and holds for a second.
	forgotten := between(silent.calls, silent.begin+int64(time.Second), silent.begin+int64(2*time.Second))
	return []promise{
		reported(atMost("", "calls in the interval after 5/s is asked for", float64(down), 2)),
		reported(atMost("", "calls in a second then", float64(mostInASecond(settled)), allowed(hintLow))),
		judged(atMost("", "the same, with calls delayed on their way", float64(mostInASecond(settled)), allowed(hintLow)+float64(p.slots))),
		reported(atMost("", "calls in the first second after 20/s is asked for", float64(len(between(high.calls, high.begin, high.begin+int64(time.Second)))), 2*hintLow)),
		reported(atLeast("", "calls in the last second of that", lastSecond(high), 0.9*hintHigh)),
		reported(atMost("", "calls in the last second of that", lastSecond(high), allowed(hintHigh))),
		reported(atMost("", "calls in the first second after 5/s is forgotten", float64(len(forgotten)), 2*hintLow)),
		reported(atLeast("", "calls in the last second, all forgotten", lastSecond(silent), 0.95*p.rps)),
	}
}

func lastSecond(v view) float64 {
	end := v.begin + int64(v.span)
	return float64(len(between(v.calls, end-int64(time.Second), end)))
}
