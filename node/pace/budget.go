package pace

import (
	"math"
	"time"
)

// Settings is what a target may take. Both values are positive.
type Settings struct {
	RPS           float64 // dispatches a second
	MaxConcurrent int     // dispatches that are open at one time
}

// MinRPS is the slowest pace: a target is slowed down to it, never stopped.
const MinRPS = 0.25

// Slack is how late a dispatch may be without a loss of rate: what a timer or a busy machine delays
// is made up by the next dispatches. It is also what makes a burst: in one second there may be 1 % more
// dispatches than the rate says, and one.
const Slack = 10 * time.Millisecond

// Budget is what one target may still take: a rate and a number of open dispatches, for all who
// share the target together. In any span of t seconds it grants at most RPS*(t+Slack)+1 dispatches,
// and at no time are more than MaxConcurrent open.
//
// It is a leaky bucket (the generic cell rate algorithm of ITU-T I.371) that counts in dispatches,
// so that a change of the rate applies at once to the wait that is going on. It has one owner at a
// time.
type Budget struct {
	set     Settings
	open    int
	level   float64   // dispatches in the bucket at the time of settled; never negative
	settled time.Time // when level was right
}

// NewBudget returns the budget of a target that nothing is known about but its settings.
func NewBudget(s Settings) *Budget {
	b := &Budget{}
	b.Configure(s)
	return b
}

// Configure applies other settings and keeps what has been used and what is open. A value that is
// not positive counts as the smallest one.
func (b *Budget) Configure(s Settings) {
	if !(s.RPS > 0) { // also NaN
		s.RPS = MinRPS
	}
	s.MaxConcurrent = max(s.MaxConcurrent, 1)
	b.set = s
}

// Wait returns how long to wait before the next dispatch; 0 means that it may start now. When ok is
// false as many are open as may be, and only Done makes room. It changes nothing.
func (b *Budget) Wait(now time.Time) (wait time.Duration, ok bool) {
	if b.open >= b.set.MaxConcurrent {
		return 0, false
	}
	over := b.levelAt(now) - b.set.RPS*Slack.Seconds()
	if over <= rounding {
		return 0, true
	}
	ns := math.Ceil(over / b.set.RPS * 1e9)
	if ns >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return time.Duration(ns), true
}

// rounding is a part of a dispatch that is too small to wait for.
const rounding = 1e-6

// Take counts one dispatch that starts at now, which Wait has allowed.
func (b *Budget) Take(now time.Time) {
	b.level = b.levelAt(now) + 1
	if now.After(b.settled) {
		b.settled = now
	}
	b.open++
}

// Done counts the end of a dispatch at now. What the answer says about pace changes nothing while
// the settings alone decide.
func (b *Budget) Done(Signal, time.Time) { b.open = max(b.open-1, 0) }

// InFlight is how many dispatches are open.
func (b *Budget) InFlight() int { return b.open }

// Rate is how many dispatches a second are allowed at present.
func (b *Budget) Rate() float64 { return b.set.RPS }

// levelAt is what is in the bucket at now; a clock that goes back stands still.
func (b *Budget) levelAt(now time.Time) float64 {
	elapsed := max(now.Sub(b.settled), 0)
	return max(b.level-elapsed.Seconds()*b.set.RPS, 0)
}
