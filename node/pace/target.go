package pace

import (
	"cmp"
	"time"
)

// Target is all that decides when one target gets its next dispatch, and for whom: its budget, its
// flows, and whose turn it is. A flow whose own calls fail keeps back, and the others go on as if it
// had no work.
//
// Its owner tells it of work (Add), asks for the next dispatch (Next), and reports that it started (Start)
// and how it ended (Done). After Next has returned no flow there is nothing to do before the returned
// wait is over, or Add or Done is called. It has one owner at a time.
type Target[T any] struct {
	budget Budget
	share  Share[T]
	naps   naps[T]
	mean   mean
}

// Slot is one dispatch that is open.
type Slot[T any] struct {
	flow    *Flow[T]
	started time.Time
	cost    float64 // in units of the configured fairness
	charged float64 // what the flow has been charged for it
}

// NewTarget returns a target that nothing is known about but its settings.
func NewTarget[T any](s Settings) *Target[T] {
	t := &Target[T]{}
	t.Configure(s)
	return t
}

// Configure applies other settings and keeps what is known, who waits and what is open.
func (t *Target[T]) Configure(s Settings) { t.budget.Configure(s) }

// Budget is the target's budget, to be read. Direct attempts are taken from it and given back to it.
func (t *Target[T]) Budget() *Budget { return &t.budget }

// Add tells that a flow has work. It does nothing if that is known.
func (t *Target[T]) Add(f *Flow[T]) {
	if f.eager {
		return
	}
	t.naps.rouse(f)
	t.share.Add(f)
}

// Next returns the flow that may have a dispatch now. If there is none it returns nil and how long to
// wait before asking again: for ever if Wait.For is 0. It takes time in the logarithm of the number of
// flows, and of those alone that have come to wait or to wake since it was last called.
func (t *Target[T]) Next(now time.Time) (*Flow[T], Wait) {
	t.wake(now)
	for f := t.share.Next(); f != nil; f = t.share.Next() {
		wait, ok := t.budget.Wait(now)
		if !ok {
			return nil, Wait{Reason: WaitConcurrency}
		}
		if wait > 0 {
			return nil, Wait{wait, WaitRate}
		}
		keeps := f.own.wait(now)
		if keeps.For == 0 {
			return f, Wait{}
		}
		t.share.pop()
		f.eager = true
		t.naps.until(f, now.Add(keeps.For))
	}
	return nil, t.nap(now)
}

// nap is how long until the first flow wakes.
func (t *Target[T]) nap(now time.Time) Wait {
	if len(t.naps) == 0 {
		return Wait{}
	}
	f := t.naps[0]
	w := Wait{For: f.wake.Sub(now)}
	if f.eager {
		w.Reason = f.own.wait(now).Reason
	}
	return w
}

// wake lets the flows whose time has come take part again.
func (t *Target[T]) wake(now time.Time) {
	for len(t.naps) > 0 && !t.naps[0].wake.After(now) {
		f := t.naps[0]
		eager := f.eager
		t.naps.rouse(f)
		if eager {
			t.share.Add(f)
			continue
		}
		f.own = own{}
		t.share.rest(f)
	}
}

// Start gives the flow that Next has just returned its dispatch, and tells whether it has more work. cost is
// what the dispatch costs beside others; 1 for all if they are alike.
func (t *Target[T]) Start(cost float64, more bool, now time.Time) Slot[T] {
	f := t.share.Next()
	s := Slot[T]{flow: f, started: now, cost: cost}
	took := f.mean
	if took == 0 {
		took = t.mean
	}
	s.charged = cost * t.use(time.Duration(took))
	t.share.Serve(s.charged, f.weight(), more)
	t.budget.Take(now)
	f.own.take(now)
	f.open++
	t.settle(f, now)
	return s
}

// Skip takes the turn of the flow that Next has just returned without a dispatch: it has no work any more.
func (t *Target[T]) Skip(now time.Time) {
	f := t.share.Next()
	t.share.Serve(0, 1, false)
	t.settle(f, now)
}

// Done ends a dispatch, once, and learns from what the answer said; the zero Signal says nothing. What
// an answer asks for holds for the target; that it failed, and its Retry-After, for the flow alone. It returns what
// Budget.Done does.
func (t *Target[T]) Done(s Slot[T], answer Signal, now time.Time) (opened BreakerKind) {
	opened = t.budget.Done(answer, now)
	f, took := s.flow, max(now.Sub(s.started), 1)
	f.open--
	f.mean.add(took)
	t.mean.add(took)
	t.share.Charge(f, s.cost*t.use(took)-s.charged, f.weight())
	f.own.learn(&answer, t.budget.Rate(), t.budget.set.RPS, now)
	t.settle(f, now)
	return opened
}

// use is what a dispatch uses of the target in units of its rate: one, or if that is more, the part of the
// slots that it holds for so long.
func (t *Target[T]) use(took time.Duration) float64 {
	if t.budget.set.Fairness != ByUse {
		return 1
	}
	return max(1, took.Seconds()*t.budget.Rate()/float64(t.budget.MaxConcurrent()))
}

// settle puts a flow that is not waiting for its turn where it belongs.
func (t *Target[T]) settle(f *Flow[T], now time.Time) {
	switch {
	case f.waiting:
	case f.eager:
		t.naps.until(f, now.Add(f.own.wait(now).For))
	case f.own.slowed(now):
		t.share.unrest(f)
		idle := t.budget.set.idle(cmp.Or(f.own.rps, t.budget.Rate()))
		t.naps.until(f, latest(f.own.until, now.Add(idle)))
	default:
		t.naps.rouse(f)
		t.share.unrest(f)
		t.share.rest(f)
	}
}

// Forget returns a flow without work and without open dispatches whose past matters no more, so that
// the owner may drop it, and nil if there is none. A target is tidy if Forget is called twice after
// each Next and Done.
func (t *Target[T]) Forget(now time.Time) *Flow[T] {
	t.wake(now)
	for f := t.share.Forget(); f != nil; f = t.share.Forget() {
		if f.open == 0 {
			return f
		}
	}
	return nil
}

// Holds tells that the target has a use for a flow: it has work, something of it is open, or its past
// matters. Such a flow must not be dropped.
func (t *Target[T]) Holds(f *Flow[T]) bool {
	return f.waiting || f.nap > 0 || f.open > 0 || t.share.rests(f)
}

// Resting tells that nothing is open and that the target holds no flow.
func (t *Target[T]) Resting() bool {
	return t.budget.open == 0 && len(t.share.waiting) == 0 && len(t.naps) == 0 && t.share.resting == nil
}

// Len is how many flows have work that may be sent as soon as it is their turn.
func (t *Target[T]) Len() int { return t.share.Len() }

// ClearSlowDowns forgets that flows were slowed down, and what they were told to wait.
func (t *Target[T]) ClearSlowDowns() {
	for _, w := range t.share.waiting {
		w.flow.own = own{}
	}
	for len(t.naps) > 0 {
		f := t.naps[0]
		f.own, f.wake = own{}, time.Time{}
		t.wake(f.wake)
	}
}
