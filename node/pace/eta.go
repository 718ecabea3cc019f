package pace

import "time"

// ETA estimates how long until a waiting job of a flow starts, and what it mostly waits for. ahead is how
// many jobs of the same flow come before it, others how many wait in all other flows together. It
// assumes that rates stay as they are, that dispatches take as long as they have, and that weights
// are equal. A wait for a slot of a target that has never answered is of unknown length, and counts as none.
func (t *Target[T]) ETA(f *Flow[T], ahead, others int, now time.Time) Wait {
	foreign := min(float64(max(others, 0)), t.foreign(f, ahead))
	mine := float64(max(ahead, 0))
	w := t.drain(mine+foreign, now)
	if w.Reason != NoWait && foreign > mine {
		w.Reason = WaitFairShare
	}
	own := f.own.wait(now)
	if own.Reason == WaitRetryAfter {
		return Wait{sum(own.For, w.For), WaitRetryAfter}
	}
	if f.own.rps > 0 {
		own.For = sum(own.For, seconds(mine/f.own.rps))
	}
	if own.For > w.For {
		return Wait{own.For, WaitRate}
	}
	return w
}

// drain is how long until a dispatch starts that comes after so many others.
func (t *Target[T]) drain(turns float64, now time.Time) Wait {
	b := &t.budget
	rate := sum(b.spent.wait(b.Rate(), now), seconds(turns/b.Rate()))
	var slots Wait
	if most := b.MaxConcurrent(); turns >= float64(most-b.open) {
		rounds := (turns - float64(most-b.open) + 1) / float64(most)
		slots = Wait{seconds(rounds * time.Duration(t.mean).Seconds()), WaitConcurrency}
	}
	switch {
	case slots.Reason != NoWait && (slots.For >= rate || t.mean == 0):
		return Wait{max(slots.For, rate), WaitConcurrency}
	case rate > 0:
		return Wait{rate, WaitRate}
	}
	return Wait{}
}

// foreign is about how many turns of others come before a flow's job that has so many of its own before it,
// if all have enough to do.
func (t *Target[T]) foreign(f *Flow[T], ahead int) float64 {
	flows := t.share.Len()
	if f.waiting {
		flows--
	}
	return float64(flows)*float64(max(ahead, 0)) + t.earlier(f)
}

// sample bounds how many flows are compared for an estimate.
const sample = 1000

// earlier is about how many flows have their turn before f, at most.
func (t *Target[T]) earlier(f *Flow[T]) float64 {
	if t.share.Next() == f {
		return 0
	}
	all := t.share.waiting
	start := max(f.finish, t.share.now)
	var seen, before float64
	for i := 0; i < len(all); i += 1 + len(all)/sample {
		seen++
		if w := &all[i]; w.flow != f && w.flow.finish <= start {
			before++
		}
	}
	return before * float64(len(all)) / max(seen, 1)
}

// sum adds two times that are not negative; the longest Duration if it would be longer.
func sum(a, b time.Duration) time.Duration {
	if s := a + b; s >= 0 {
		return s
	}
	return 1<<63 - 1
}
