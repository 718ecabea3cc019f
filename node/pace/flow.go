package pace

import "time"

// Flow is one party that shares a target. It belongs to one Share or Target at a time and must not be
// copied while in it.
type Flow[T any] struct {
	// Lane is whom the flow stands for.
	Lane T
	// Weight is the flow's part of a Target relative to that of others; 0 counts as 1.
	Weight float64

	finish     float64 // virtual time at which its last turn ends; of one that waits, where its next begins
	waiting    bool    // it is in Share.waiting
	eager      bool    // it is in Target.naps and has work
	open       int     // its dispatches that are open, of those that a Target knows
	nap        int     // its place in Target.naps, from 1 on; 0: it is not there
	wake       time.Time
	prev, next *Flow[T]

	own  own
	mean mean
}

func (f *Flow[T]) weight() float64 {
	if f.Weight > 0 {
		return f.Weight
	}
	return 1
}

// OwnRate is how many dispatches a second the flow may have because its own calls have failed; 0 if nothing
// but the target's rate bounds it.
func (f *Flow[T]) OwnRate() float64 { return f.own.rps }

// CoolsUntil is when the target wants to be called for this flow again; zero if it may be called.
func (f *Flow[T]) CoolsUntil() time.Time { return f.own.until }

// own is how a flow is slowed down by its own failures, while others are not.
type own struct {
	rps   float64   // 0: as fast as the target may be called
	spent bucket    // while rps is 0: the latest dispatch
	until time.Time // the target wants no call before
}

// slowed tells that the flow is not like one that is new.
func (o *own) slowed(now time.Time) bool { return o.rps > 0 || o.until.After(now) }

// wait is how long the flow keeps back.
func (o *own) wait(now time.Time) Wait {
	if cools := o.until.Sub(now); cools > 0 {
		return Wait{cools, WaitRetryAfter}
	}
	if o.rps > 0 {
		if d := o.spent.wait(o.rps, now); d > 0 {
			return Wait{d, WaitRate}
		}
	}
	return Wait{}
}

// take counts a dispatch. While the flow is not slowed down only the latest one matters: from it on
// the first slow interval is measured.
func (o *own) take(now time.Time) {
	if o.rps == 0 {
		o.spent = bucket{level: 1, settled: now}
		return
	}
	o.spent.take(o.rps, now)
}

// learn halves the rate for a failure, unless the answer says itself which rate is right, and
// raises it by a twentieth for a success. rate is the target's, configured what it may become.
func (o *own) learn(s *Signal, rate, configured float64, now time.Time) {
	if o.rps > 0 {
		o.spent.settle(o.rps, now)
		rate = min(rate, o.rps)
	}
	_, said := s.rate()
	switch {
	case s.Failed && !said:
		o.rps = max(rate/2, MinRPS)
	case s.succeeded():
		o.rps *= climb
	}
	if o.rps >= configured {
		o.rps = 0
	}
	if s.Failed && s.RetryAfter.OK {
		o.until = latest(o.until, now.Add(s.RetryAfter.Wait))
	}
}

// mean is a moving mean of how long dispatches take, as RFC 6298 smooths round-trip times.
type mean time.Duration

func (m *mean) add(d time.Duration) {
	if *m == 0 {
		*m = mean(d)
		return
	}
	*m += (mean(d) - *m) / 8
}
