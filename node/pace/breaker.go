package pace

import "time"

// Breaker says whether direct calls, which go past the queue, are to leave their target alone for now. It opens when
// three attempts in a row could not connect, and when the answer to a direct call tells of overload. It closes when its
// cooldown is over; there is nothing between open and closed, and the next attempt is the probe.
//
// It does not hold back what is queued: that has its pace, and finds out how the target is. The zero Breaker is closed.
// It has one owner at a time.
type Breaker struct {
	missed int // attempts that could not connect since the last answer, as far as they matter
	kind   BreakerKind
	reason BreakerReason
	since  time.Time // when it last opened
	until  time.Time // when it closes, or has closed
}

// tripAfter is how many attempts in a row that cannot connect open a breaker.
const tripAfter = 3

// BreakerKind is what is to become of direct calls. The set is closed.
type BreakerKind uint8

// The kinds.
const (
	// BreakerClosed: they may be made.
	BreakerClosed BreakerKind = iota
	// BreakerQueue: they join the target's queue.
	BreakerQueue
	// BreakerReroute: another region may take them; if there is none they join the target's queue.
	BreakerReroute
)

// BreakerKinds lists the kinds for which a breaker opens.
func BreakerKinds() []BreakerKind { return []BreakerKind{BreakerQueue, BreakerReroute} }

// String returns the word by which an operator knows the kind.
func (k BreakerKind) String() string { return word(k, "closed", "queue", "reroute") }

// BreakerReason is why a breaker opened. The set is closed.
type BreakerReason uint8

// The reasons.
const (
	// Unreached: three attempts in a row could not connect.
	Unreached BreakerReason = iota
	// Overloaded: the status of an answer, or its load report, says so.
	Overloaded
	// QueueActive: the target says that it has a queue of its own.
	QueueActive
)

// String returns the word by which an operator knows the reason.
func (r BreakerReason) String() string {
	return word(r, "upstream_unreachable", "upstream_overloaded", "queue_active")
}

// word is the word for a member of a closed set.
func word[T ~uint8](of T, words ...string) string {
	if int(of) < len(words) {
		return words[of]
	}
	return "unknown"
}

// Open returns what is to become of direct calls, and until when; BreakerClosed if they may be made.
func (b *Breaker) Open(now time.Time) (kind BreakerKind, until time.Time) {
	if !now.Before(b.until) {
		return BreakerClosed, time.Time{}
	}
	return b.kind, b.until
}

// Why returns for what an open breaker was last held open, and since when it is open.
func (b *Breaker) Why() (reason BreakerReason, since time.Time) { return b.reason, b.since }

// hear takes in how an attempt ended. It returns the kind for which the breaker has opened now, BreakerClosed if it
// has not. What ended without an answer, but had a connection, says nothing: another limit or another fault may
// have ended it.
func (b *Breaker) hear(s *Signal, c Cooldown, now time.Time) BreakerKind {
	switch {
	case s.Unreachable:
		if b.missed = min(b.missed+1, tripAfter); b.missed == tripAfter {
			return b.trip(Overload{BreakerReroute, Unreached, 0}, c, now)
		}
	case s.Status != 0:
		b.missed = 0
		if s.Overload.Kind != BreakerClosed {
			return b.trip(s.Overload, c, now)
		}
	}
	return BreakerClosed
}

// trip opens the breaker, or holds it open: the last kind holds, and the longest time that was asked for.
func (b *Breaker) trip(o Overload, c Cooldown, now time.Time) (opened BreakerKind) {
	if !now.Before(b.until) {
		b.since, opened = now, o.Kind
	}
	b.kind, b.reason = o.Kind, o.Reason
	b.until = latest(b.until, now.Add(c.of(o.RetryAfter)))
	return opened
}

// Cooldown is how long breakers stay open. A field that is not positive counts as its default.
type Cooldown struct {
	Default       time.Duration // for a target that does not say when to come back; by default 5 s
	Multiplier    int           // how many times what a target says; by default 3
	RetryAfterMax time.Duration // the longest that a target may say; by default an hour
}

// of is the cooldown for what a target has said.
func (c Cooldown) of(retryAfter time.Duration) time.Duration {
	if retryAfter <= 0 {
		return c.Default
	}
	return times(int64(c.Multiplier), min(retryAfter, c.RetryAfterMax))
}

func (c Cooldown) normal() Cooldown {
	if c.Default <= 0 {
		c.Default = 5 * time.Second
	}
	if c.Multiplier <= 0 {
		c.Multiplier = 3
	}
	if c.RetryAfterMax <= 0 {
		c.RetryAfterMax = time.Hour
	}
	return c
}
