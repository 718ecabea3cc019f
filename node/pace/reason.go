package pace

import "time"

// Wait is how long something has to wait, and why.
type Wait struct {
	For    time.Duration
	Reason Reason
}

// Reason is why work waits. The set is closed.
type Reason uint8

// Why work waits. The last two are for whoever keeps work away from its turn; here nothing returns them.
const (
	// NoWait: nothing holds it back.
	NoWait Reason = iota
	// WaitRate: the target's rate, or the tenant's own after failures, has no room yet.
	WaitRate
	// WaitConcurrency: as many dispatches are open as may be.
	WaitConcurrency
	// WaitFairShare: it is the turn of others.
	WaitFairShare
	// WaitRetryAfter: the target has asked not to be called for a while.
	WaitRetryAfter
	// WaitBackoff: the last attempt failed, and the next one is not due.
	WaitBackoff
	// WaitNotReady: this node starts no work at present.
	WaitNotReady
)

// String returns the word by which an operator knows the reason; that of NoWait is empty.
func (r Reason) String() string {
	return word(r, "", "rate", "concurrency", "fair_share", "retry_after", "backoff", "not_ready")
}
