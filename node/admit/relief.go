package admit

import (
	"context"
	"time"
)

// A closed gate looks for memory every reliefMin, and up to reliefMax less and less often while that
// does not open it: looking costs a collection of the whole heap.
const (
	reliefMin = time.Second
	reliefMax = time.Minute
)

// Run looks, until ctx ends, for memory that is not needed any more while memory is what closes the gate.
// The runtime does so only when something is allocated, of which there is little once work is refused.
func (g *Gate) Run(ctx context.Context) error {
	if g.config.Limits.Memory == 0 {
		return nil
	}
	timer := time.NewTimer(reliefMin)
	defer timer.Stop()
	for wait := reliefMin; ; timer.Reset(wait) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, reliefMax)
		if !g.Relieve() || !g.memoryIsOver() {
			wait = reliefMin
		}
	}
}

// Relieve collects what is not needed any more if memory is over its limit, and reports whether it was.
func (g *Gate) Relieve() bool {
	if !g.memoryIsOver() {
		return false
	}
	g.config.Collect()
	g.config.Sampler.Expire()
	return true
}

func (g *Gate) memoryIsOver() bool {
	limit := g.config.Limits.Memory
	return limit > 0 && g.read().Memory > limit
}
