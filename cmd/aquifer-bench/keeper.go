package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// keeper runs one node through its restarts.
type keeper struct {
	node *node
	clk  clock
	// mu lets the sampler look at the node while another goroutine restarts it.
	mu      sync.Mutex
	now     *dispatcher // nil between an end and the next start
	starts  int
	crashes []int64 // when the node was killed, ns of the shared clock
}

func (k *keeper) start(ctx context.Context) error {
	d, err := k.node.start(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = d
	k.starts++
	return nil
}

// end ends the node, by kill -9 or on request. It does nothing if no node runs.
func (k *keeper) end(crash bool) error {
	k.mu.Lock()
	d := k.now
	k.now = nil
	if d != nil && crash {
		k.crashes = append(k.crashes, k.clk.now())
	}
	k.mu.Unlock()
	switch {
	case d == nil:
		return nil
	case crash:
		d.Kill()
		return nil
	default:
		return d.stop()
	}
}

// restarts restarts the node at the given moments after begin, kill -9 and SIGTERM in turn.
func (k *keeper) restarts(ctx context.Context, begin int64, moments []time.Duration) error {
	for i, m := range moments {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(begin + int64(m) - k.clk.now())):
		}
		if err := k.end(i%2 == 0); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
		if err := k.start(ctx); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
	}
	return nil
}

// look samples the node. It returns false if no node runs at this moment, and an error if one ended
// that nobody had asked to.
func (k *keeper) look(ctx context.Context) (sample, bool, error) {
	k.mu.Lock()
	d, start := k.now, k.starts
	k.mu.Unlock()
	if d == nil {
		return sample{}, false, nil
	}
	goroutines := d.goroutines(ctx)
	u, err := usageOf(d.ID())
	size, sizeErr := sizeOf(k.node.data())
	if err != nil || sizeErr != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.now != d { // it is being restarted
			return sample{}, false, nil
		}
		return sample{}, false, fmt.Errorf("the node ended by itself (%w)\n%s", errors.Join(err, sizeErr), d.Tail())
	}
	return sample{Start: start, RSS: u.RSS, Goroutines: goroutines, Files: u.Files, Database: size}, true, nil
}
