package agenda

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// doAll does what is due, and returns how much is done, and how much failed; the rest cannot be done
// yet. A deadline is looked at when the retries are done: no two things of one job go on at a time.
func (a *Agenda) doAll(ctx context.Context, due []store.Due) (done, failed int) {
	results := make([]result, len(due))
	for _, deadlines := range []bool{false, true} {
		var group errgroup.Group
		group.SetLimit(parallel)
		for i, d := range due {
			if (d.Kind == store.DueDeadline) == deadlines && ctx.Err() == nil {
				group.Go(func() error {
					results[i] = a.do(ctx, d)
					return nil
				})
			}
		}
		_ = group.Wait() // the results tell
	}
	var first error
	for _, r := range results {
		switch {
		case r.err != nil:
			failed++
			first = cmp.Or(first, r.err)
		case r.done:
			done++
		}
	}
	if failed > 0 {
		a.report("do", failed, first)
	}
	return done, failed
}

// result is what became of one thing that is due. It is neither done nor failed if it must stay due for
// now.
type result struct {
	done bool
	err  error
}

func (a *Agenda) do(ctx context.Context, d store.Due) result {
	switch d.Kind {
	case store.DueCall:
		return a.requeue(ctx, a.Calls, d)
	case store.DueDelivery:
		return a.requeue(ctx, a.Deliveries, d)
	default:
		return a.deadline(ctx, d)
	}
}

// requeue brings due work back to its lane.
func (a *Agenda) requeue(ctx context.Context, line Line, d store.Due) result {
	place := line.Resume(d.Lane, d.ID)
	var e job.Entry
	err := store.Certain(ctx, a.Store, d.ID,
		func(ctx context.Context) (err error) {
			e, err = a.Store.Requeue(ctx, d)
			return err
		},
		func(s job.Snapshot) bool {
			e = job.Entry{Lane: d.Lane, Order: s.State.Order, ID: d.ID}
			if d.Kind == store.DueDelivery {
				e.Order = s.Webhook.Order
			}
			return e.Order != 0
		})
	if err != nil {
		place.Cancel()
		return outcome(err)
	}
	place.Push(e, nil)
	return result{done: true}
}

// deadline fails a job that waits: in its lane, or for a retry.
func (a *Agenda) deadline(ctx context.Context, d store.Due) result {
	s, err := a.Store.Get(ctx, d.ID)
	if err != nil {
		return outcome(err)
	}
	place := job.Entry{Lane: d.Lane, Order: s.State.Order, ID: d.ID}
	if s.State.DueAt == 0 && !a.Calls.Withdraw(place) {
		return result{}
	}
	if err := failure(a.Fail(ctx, s)); err != nil {
		return result{err: err}
	}
	a.Calls.Gone(d.Lane, d.ID)
	return result{done: true}
}

// outcome says what an error leaves of what was due: nothing if its job has moved on. What cannot be read
// stays due, and can neither be done nor fail.
func outcome(err error) result {
	return result{done: store.MovedOn(err) && !errors.Is(err, store.ErrCorrupt), err: failure(err)}
}

// failure drops the errors that say that a job has moved on.
func failure(err error) error {
	if store.MovedOn(err) {
		return nil
	}
	return err
}
