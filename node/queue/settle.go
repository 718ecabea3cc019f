package queue

import (
	"context"
	"time"
)

// settling is how often it is looked whether anything can still start.
const settling = 250 * time.Millisecond

// Settle is WaitIdle, but does not wait for what cannot start before the deadline of ctx: that of a paused target, and
// what its pace holds back for longer. Without a deadline it waits for all but paused targets.
func (q *Queue) Settle(ctx context.Context) error {
	for q.stirs(ctx) {
		step, cancel := context.WithTimeout(ctx, settling)
		err := q.WaitIdle(step)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// stirs reports whether a turn is open anywhere, or may start before the deadline.
func (q *Queue) stirs(ctx context.Context) bool {
	by, bounded := ctx.Deadline()
	found := false
	q.each(func(t *target) { found = found || t.stirs(by, bounded) })
	return found
}

func (t *target) stirs(by time.Time, bounded bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.present {
		if p.state != waiting && p.state != withdrawn {
			return true
		}
	}
	if t.paused {
		return false
	}
	now := time.Now()
	f, wait := t.pace.Next(now)
	switch {
	case f != nil, t.reading, len(t.refills) > 0:
		return true
	case wait.For == 0: // nothing waits, for nothing is open
		return false
	default:
		return !bounded || now.Add(wait.For).Before(by)
	}
}
