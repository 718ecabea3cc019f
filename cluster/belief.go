package cluster

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// beliefTimeout bounds how long a request waits for others to say whether they believe its node.
	beliefTimeout = 2 * time.Second
	// beliefLife is how long their answers are remembered: then they may have got the right secret, or the time.
	beliefLife = time.Second
)

// beliefs remembers, for each member that refuses this node's seal, whether another one believes it. Its zero value
// remembers nothing. It is safe for concurrent use.
type beliefs struct {
	mu sync.Mutex // guards of
	of map[string]*belief
}

// belief is one look at what the others believe.
type belief struct {
	done     chan struct{} // closed when the others were asked
	believed bool          // set before done is closed
	until    time.Time     // when it is forgotten; set before done is closed
}

// ended reports whether a belief is to be looked for anew.
func (b *belief) ended(now time.Time) bool {
	select {
	case <-b.done:
		return !now.Before(b.until)
	default:
		return false
	}
}

// about returns the belief that holds besides the member of an id now, for which ask is called if there is none. All who
// want it meanwhile share it.
func (b *beliefs) about(id string, ask func() bool) *belief {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for other, old := range b.of {
		if old.ended(now) {
			delete(b.of, other)
		}
	}
	if known := b.of[id]; known != nil {
		return known
	}
	asked := &belief{done: make(chan struct{})}
	if b.of == nil {
		b.of = make(map[string]*belief)
	}
	b.of[id] = asked
	go func() {
		defer close(asked.done)
		asked.believed = ask()
		asked.until = time.Now().Add(beliefLife)
	}()
	return asked
}

// believedBesides reports whether a member other than m believes this node's seal now. Then the fault is at m, and
// another one may own what is m's; else this node's secret or clock is wrong, and it would take itself for the owner of
// everything. What was found less than beliefLife ago is not asked for again.
func (f *Forwarder) believedBesides(ctx context.Context, m Member) bool {
	found := f.beliefs.about(m.ID, func() bool { return f.askBelief(context.WithoutCancel(ctx), m) })
	select {
	case <-found.done:
		return found.believed
	case <-ctx.Done():
		return false
	}
}

// askBelief asks all members but m at once.
func (f *Forwarder) askBelief(ctx context.Context, m Member) bool {
	ctx, cancel := context.WithTimeout(ctx, beliefTimeout)
	defer cancel()
	now := f.Owners.fields.now()
	believed := make(chan bool, len(now.members))
	asked := 0
	for _, other := range now.members {
		if other.ID == m.ID || other.ID == now.roster.Self.ID || f.Owners.pruned.has(other) {
			continue
		}
		asked++
		go func() {
			err := f.ready(ctx, other)
			believed <- err == nil || errors.Is(err, errNotReady)
		}()
	}
	for range asked {
		if <-believed {
			return true
		}
	}
	return false
}
