package pace

import (
	"math"
	"time"
)

// Budget is what one target may still take: a rate and a number of open dispatches, for all who
// share the target together. In any span it grants at most as many dispatches as its rate allows in
// that time and Slack, and one; and none while MaxConcurrent or more are open.
//
// Its rate and number are what is configured, or less when the target's answers say so. It has one
// owner at a time.
type Budget struct {
	set   Settings
	known learned
	spent bucket
	open  int
	used  time.Time // when something last began or ended; zero: never

	breaker Breaker
}

// NewBudget returns the budget of a target that nothing is known about but its settings.
func NewBudget(s Settings) *Budget {
	b := &Budget{}
	b.Configure(s)
	return b
}

// Configure applies other settings and keeps what has been used, what is open, and what was learned.
// A value that is not positive counts as the smallest one.
func (b *Budget) Configure(s Settings) { b.set = s.Own().normal() }

// Wait returns how long to wait before the next dispatch; 0 means that it may start now. When ok is
// false as many are open as may be, and only Done makes room. It changes nothing.
func (b *Budget) Wait(now time.Time) (wait time.Duration, ok bool) {
	if b.open >= b.MaxConcurrent() {
		return 0, false
	}
	return b.spent.wait(b.Rate(), now), true
}

// Take counts one dispatch that starts at now, which Wait has allowed, or a direct attempt. However many
// direct attempts there are, they put the next dispatch off by one interval and Slack only.
func (b *Budget) Take(now time.Time) {
	b.begin(now)
	b.spent.take(b.Rate(), now)
}

// DirectWait is Wait for a direct attempt, whose caller waits for it on an open connection. Only limits that
// the target has asked for hold it back, not the settings.
func (b *Budget) DirectWait(now time.Time) (wait time.Duration, ok bool) {
	k := &b.known
	if k.slots.value > 0 && float64(b.open) >= k.slots.value {
		return 0, false
	}
	rate := k.load.of(k.rate.of(math.Inf(1)))
	if math.IsInf(rate, 1) {
		return 0, true
	}
	return b.spent.wait(rate, now), true
}

// begin counts what starts, be it from nothing.
func (b *Budget) begin(now time.Time) {
	if b.open == 0 && (b.used.IsZero() || now.Sub(b.used) >= b.set.idle(b.Rate())) {
		b.spent.settle(b.Rate(), now)
		b.known.begin(b.set, now)
	}
	b.use(now)
	b.open++
}

// Done counts the end of a dispatch at now, and learns from what the answer said. The zero Signal
// teaches nothing. It returns the kind for which the breaker has opened now, BreakerClosed if it has not.
func (b *Budget) Done(s Signal, now time.Time) (opened BreakerKind) {
	b.use(now)
	b.open = max(b.open-1, 0)
	b.spent.settle(b.Rate(), now)
	b.known.hear(&s, now, b.set.HintTTL)
	if s.succeeded() {
		b.known.success(b.set, now)
	}
	return b.breaker.hear(&s, b.set.Breaker, now)
}

// Breaker is the target's breaker, to be read.
func (b *Budget) Breaker() *Breaker { return &b.breaker }

func (b *Budget) use(now time.Time) {
	if now.After(b.used) {
		b.used = now
	}
}

// InFlight is how many dispatches are open.
func (b *Budget) InFlight() int { return b.open }

// Rate is how many dispatches a second are allowed at present.
func (b *Budget) Rate() float64 { return b.known.rps(b.set.RPS) }

// MaxConcurrent is how many open dispatches are allowed at present.
func (b *Budget) MaxConcurrent() int {
	configured := b.set.MaxConcurrent
	if learned := b.known.slots.value; learned > 0 && learned < float64(configured) {
		return int(learned)
	}
	return configured
}
