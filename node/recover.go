package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// recovery takes up the work that the last process left. It runs before the doors open and before
// anything else touches the store.
type recovery struct {
	store             store.Store
	calls, deliveries *queue.Queue
	failedTTL         time.Duration
}

// recovered is what a recovery found.
type recovered struct {
	interrupted, calls, deliveries, waiting int
}

func (r *recovery) run(ctx context.Context) (recovered, error) {
	var found recovered
	var err error
	if found.interrupted, err = r.interrupted(ctx); err != nil {
		return found, fmt.Errorf("take up interrupted attempts: %w", err)
	}
	if found.calls, err = r.lanes(ctx, job.Calls, r.calls); err != nil {
		return found, fmt.Errorf("take up queued jobs: %w", err)
	}
	if found.deliveries, err = r.lanes(ctx, job.Deliveries, r.deliveries); err != nil {
		return found, fmt.Errorf("take up owed deliveries: %w", err)
	}
	if found.waiting, err = r.pending(ctx); err != nil {
		return found, fmt.Errorf("take up retries: %w", err)
	}
	return found, nil
}

// interrupted counts the attempts that the last process did not survive. The jobs keep their places,
// so they run again at once, unless they have no attempt left. One that cannot be read stays as it is.
func (r *recovery) interrupted(ctx context.Context) (int, error) {
	open, err := r.store.Interrupted(ctx)
	if err != nil {
		return 0, err
	}
	for _, i := range open {
		if err := r.interrupt(ctx, i); err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
			return 0, err
		}
	}
	return len(open), nil
}

func (r *recovery) interrupt(ctx context.Context, i store.Interrupted) error {
	s, err := r.store.Get(ctx, i.Entry.ID)
	if err != nil {
		return err
	}
	next := s.State.Interrupt(job.Attempt{Number: i.Attempt, StartedAt: i.StartedAt})
	if next.Crashes < worker.MaxCrashes && next.Tried < s.Job.AttemptsAllowed(next) {
		return r.store.Record(ctx, s.Job.ID, next)
	}
	end, ok := next.Finish(job.End{
		Status: job.Failed, At: time.Now().UnixMilli(), Keep: r.failedTTL.Milliseconds(), Reason: string(job.CrashedWorker),
	})
	if !ok {
		return nil
	}
	_, err = r.store.Finish(ctx, store.Finish{Job: s.Job, Next: end})
	return err
}

func (r *recovery) lanes(ctx context.Context, line job.Line, q *queue.Queue) (int, error) {
	n := 0
	for e, err := range r.store.Waiting(ctx, line) {
		if err != nil {
			return n, err
		}
		q.Restore(e)
		n++
	}
	return n, nil
}

func (r *recovery) pending(ctx context.Context) (int, error) {
	n := 0
	for d, err := range r.store.Pending(ctx) {
		if err != nil {
			return n, err
		}
		if d.Kind == store.DueDelivery {
			r.deliveries.RestoreWaiting(d.Lane, d.ID)
		} else {
			r.calls.RestoreWaiting(d.Lane, d.ID)
		}
		n++
	}
	return n, nil
}
