package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
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

// believedBesides reports whether a member other than m, which refuses this node's seal, believes it now, or none that
// refuses it takes work while this node does. Then another one may own what is m's; else this node's secret or clock is
// wrong, and it would take itself for the owner of everything. What was found less than beliefLife ago is not asked for again.
func (f *Forwarder) believedBesides(ctx context.Context, m Member) bool {
	found := f.beliefs.about(m.ID, func() bool { return f.askBelief(context.WithoutCancel(ctx), m) })
	select {
	case <-found.done:
		return found.believed
	case <-ctx.Done():
		return false
	}
}

// askBelief asks all members but m at once, and then whether those that refuse it take work.
func (f *Forwarder) askBelief(ctx context.Context, m Member) bool {
	others := slices.DeleteFunc(f.others(), func(other Member) bool { return other.ID == m.ID || f.Owners.pruned.has(other) })
	v := f.poll(ctx, others)
	if v.believer != "" {
		return true
	}
	serves, _ := f.anyServes(ctx, append(v.refusers, m))
	return !serves
}

// others are all other members, this node's successor in the order of ids first.
func (f *Forwarder) others() []Member {
	now := f.Owners.fields.now()
	i, there := slices.BinarySearchFunc(now.members, now.roster.Self.ID, byID)
	if !there {
		return slices.Clone(now.members)
	}
	return slices.Concat(now.members[i+1:], now.members[:i])
}

// verdict is what members say of this node's seal.
type verdict struct {
	// believer believes it; empty if nobody does.
	believer string
	// refusers do not believe it, and why is what one of them says of that. If it is believed they need not be all.
	refusers []Member
	why      error
	hang     bool // one that can be reached says nothing
}

// and is the verdict of more members.
func (v verdict) and(more verdict) verdict {
	return verdict{more.believer, append(v.refusers, more.refusers...), cmp.Or(v.why, more.why), v.hang || more.hang}
}

// poll asks members at once whether they believe this node's seal, until one does.
func (f *Forwarder) poll(ctx context.Context, members []Member) (v verdict) {
	ctx, cancel := context.WithTimeout(ctx, beliefTimeout)
	defer cancel()
	type answer struct {
		of  Member
		err error
	}
	answers := make(chan answer, len(members))
	for _, m := range members {
		go func() { answers <- answer{m, f.ready(ctx, m)} }()
	}
	for range members {
		switch a := <-answers; {
		case a.err == nil, errors.Is(a.err, errNotReady):
			v.believer = a.of.ID
			return v
		case errors.Is(a.err, errMisled):
		case errors.Is(a.err, errDistrust):
			v.refusers, v.why = append(v.refusers, a.of), a.err
		case errors.Is(a.err, errUnanswered):
			v.hang = true
		}
	}
	return v
}
