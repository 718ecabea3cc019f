package main

import (
	"context"
	"io"
	"sync"
	"time"
)

// flushEvery bounds how long an event that nobody waits for stays in the outlet.
const flushEvery = 10 * time.Millisecond

// outlet carries events out of the sinks' process, many per write when many come at once.
type outlet struct {
	w io.Writer
	// mu guards the rest. Only the goroutine that set writing touches w, without holding mu, so that
	// events gather while a write is under way.
	mu      sync.Mutex
	pending []byte
	spare   []byte
	writing bool
	err     error // the first failed write; later events are dropped
}

// add takes an event. A prompt one is written at once, with all that waits.
func (o *outlet) add(e event, prompt bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	o.pending = e.append(o.pending)
	if prompt {
		o.flush()
	}
}

// flush writes what is pending; the caller holds mu. The goroutine that already writes takes over
// what comes meanwhile.
func (o *outlet) flush() {
	if o.writing {
		return
	}
	o.writing = true
	for len(o.pending) > 0 && o.err == nil {
		out := o.pending
		o.pending = o.spare[:0]
		o.mu.Unlock()
		_, err := o.w.Write(out)
		o.mu.Lock()
		o.spare, o.err = out, err
	}
	o.writing = false
}

// run writes out what lies around until ctx ends, and returns the first failed write.
func (o *outlet) run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		o.mu.Lock()
		o.flush()
		err := o.err
		o.mu.Unlock()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}
