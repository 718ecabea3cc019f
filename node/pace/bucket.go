package pace

import (
	"math"
	"time"
)

// Slack is how late a dispatch may be without a loss of rate: what a timer or a busy machine delays
// is made up by the next dispatches. It is also what makes a burst: in one second there may be 1 % more
// dispatches than the rate says, and one.
const Slack = 10 * time.Millisecond

// bucket is a leaky bucket (the generic cell rate algorithm of ITU-T I.371) that counts in dispatches,
// so that a change of the rate applies at once to the wait that is going on.
type bucket struct {
	level   float64   // dispatches in the bucket at the time of settled; never negative
	settled time.Time // when level was right
}

// rounding is a part of a dispatch that is too small to wait for.
const rounding = 1e-6

// wait is how long until the next dispatch.
func (b *bucket) wait(rate float64, now time.Time) time.Duration {
	over := b.at(rate, now) - rate*Slack.Seconds()
	if over <= rounding {
		return 0
	}
	return seconds(over / rate)
}

// settle applies what has leaked until now, before the rate changes.
func (b *bucket) settle(rate float64, now time.Time) {
	b.level = b.at(rate, now)
	if now.After(b.settled) {
		b.settled = now
	}
}

// take counts a dispatch.
func (b *bucket) take(rate float64, now time.Time) {
	b.settle(rate, now)
	b.level++
}

// at is what is in the bucket at now; a clock that goes back stands still. What a higher rate has put in
// beyond what this one can is dropped, for it would take very long to leak.
func (b *bucket) at(rate float64, now time.Time) float64 {
	elapsed := max(now.Sub(b.settled), 0)
	full := 1 + rounding + rate*Slack.Seconds()
	return max(min(b.level, full)-elapsed.Seconds()*rate, 0)
}

// seconds is a time that is not negative, rounded up; the longest Duration if it would be longer.
func seconds(s float64) time.Duration {
	ns := math.Ceil(s * 1e9)
	if !(ns < math.MaxInt64) { // also NaN
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// latest is the later of two points in time.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
