package queue

import (
	"context"
	"sync"
	"sync/atomic"
)

// counts are the numbers of a queue. They are kept, never counted, and each changes under the lock of
// the target that it concerns; a reader may see one of them before another.
type counts struct {
	backlog  atomic.Int64 // unfinished work
	waiting  atomic.Int64 // reserved, in a window, withdrawn, or on disk behind a window
	inFlight atomic.Int64 // slots taken
	targets  atomic.Int64 // with backlog
	lanes    atomic.Int64 // with backlog
	// active is waiting, and turns that run; what has left the one is never seen missing in the other.
	active atomic.Int64

	waiters atomic.Int64 // calls of idle
	mu      sync.Mutex   // guards idled
	idled   chan struct{}

	metrics *metrics
}

// come counts work that comes to wait for its turn.
func (c *counts) come() {
	c.waiting.Add(1)
	c.active.Add(1)
}

// open counts a turn that starts.
func (c *counts) open() {
	c.waiting.Add(-1)
	c.inFlight.Add(1)
}

// leave counts work that waits no longer and does not get its turn.
func (c *counts) leave() {
	c.waiting.Add(-1)
	c.done()
}

// done counts a turn that has ended.
func (c *counts) done() {
	if c.active.Add(-1) > 0 || c.waiters.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idled != nil {
		close(c.idled)
		c.idled = nil
	}
}

// idle waits until nothing is active.
func (c *counts) idle(ctx context.Context) error {
	c.waiters.Add(1) // before active is read, so that done sees the one if this misses the other
	defer c.waiters.Add(-1)
	for {
		c.mu.Lock()
		if c.idled == nil {
			c.idled = make(chan struct{})
		}
		idled := c.idled
		c.mu.Unlock()
		if c.active.Load() <= 0 {
			return nil
		}
		select {
		case <-idled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
