package pebblestore

import (
	"context"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/store"
)

// claims lets one at a time work on a thing: an idempotency key, or a job. A claim is held from the
// first read until the change that follows from it is durable.
type claims[K comparable] struct {
	closing <-chan struct{}
	// mu guards held. A claim that somebody waits for has a channel, closed when it is given up.
	mu   sync.Mutex
	held map[K]chan struct{}
}

func newClaims[K comparable](closing <-chan struct{}) *claims[K] {
	return &claims[K]{closing: closing, held: make(map[K]chan struct{})}
}

// take claims k, after the one who has it.
func (c *claims[K]) take(ctx context.Context, k K) error {
	for {
		c.mu.Lock()
		if _, taken := c.held[k]; !taken {
			c.held[k] = nil
			c.mu.Unlock()
			return nil
		}
		if err := c.wait(ctx, k); err != nil {
			return err
		}
	}
}

// free returns once nobody has k, without claiming it.
func (c *claims[K]) free(ctx context.Context, k K) error {
	for {
		c.mu.Lock()
		if _, taken := c.held[k]; !taken {
			c.mu.Unlock()
			return nil
		}
		if err := c.wait(ctx, k); err != nil {
			return err
		}
	}
}

// wait returns when the claim on k, which is held, is given up. It unlocks mu.
func (c *claims[K]) wait(ctx context.Context, k K) error {
	ch := c.held[k]
	if ch == nil {
		ch = make(chan struct{})
		c.held[k] = ch
	}
	c.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closing:
		return store.ErrClosed
	}
}

func (c *claims[K]) release(k K) {
	c.mu.Lock()
	ch := c.held[k]
	delete(c.held, k)
	c.mu.Unlock()
	if ch != nil {
		close(ch)
	}
}
