package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Ledger is what ending a job needs of the store.
type Ledger interface {
	Finish(ctx context.Context, f store.Finish) (job.Entry, error)
	Settle(ctx context.Context, id job.ID, next job.Webhook) error
}

// Listeners are the streams that wait for a job.
type Listeners interface {
	Publish(id job.ID, e events.Event)
	Listening(id job.ID) bool
	// End tells the listeners the last event and reports whether one of them confirmed it.
	End(ctx context.Context, id job.ID, e events.Event) bool
}

// Ending brings jobs to their end: the result and the owed delivery in one step of the store, then the
// listeners, then the delivery unless a listener has the result. It holds no slot of a target
// meanwhile.
type Ending struct {
	Ledger     Ledger
	Listeners  Listeners
	Deliveries intake.Queue
	Logger     *slog.Logger

	waits sync.WaitGroup // confirmations that are awaited
}

// Final is the end of one job.
type Final struct {
	Job     *job.Job
	From    job.State
	End     job.End
	Payload []byte // the whole body of the answer, if the result in End has it cut
	// Unconfirmed owes the delivery even if a stream sees the end.
	Unconfirmed bool
}

// End ends a job. It returns when the end is recorded; store.ErrStale says that it had ended
// before, and any other error that nothing was recorded.
func (e *Ending) End(ctx context.Context, f Final) error {
	next, ok := f.From.Finish(f.End)
	if !ok {
		return store.ErrStale
	}
	place, _ := e.Deliveries.Reserve(f.Job.WebhookLane(), f.Job.ID)
	entry, err := e.Ledger.Finish(ctx, store.Finish{Job: f.Job, From: f.From, Next: next, Payload: f.Payload})
	if err != nil {
		place.Cancel()
		return err
	}
	crashpoint.Reach(crashpoint.Recorded)
	s := &job.Snapshot{Job: f.Job, State: next, Webhook: job.Webhook{State: job.WebhookPending, Order: entry.Order}}
	if !e.Listeners.Listening(f.Job.ID) {
		place.Push(entry, s)
		return nil
	}
	last := events.Terminal(*s, f.Payload)
	if f.Unconfirmed {
		e.Listeners.Publish(f.Job.ID, last)
		place.Push(entry, s)
		return nil
	}
	e.waits.Go(func() { e.confirm(ctx, s, place, entry, last) })
	return nil
}

// confirm waits for a stream to have the result, and owes the delivery if none has.
func (e *Ending) confirm(ctx context.Context, s *job.Snapshot, place intake.Place, entry job.Entry, last events.Event) {
	if !e.Listeners.End(ctx, s.Job.ID, last) {
		place.Push(entry, s)
		return
	}
	err := e.Ledger.Settle(ctx, s.Job.ID, job.Webhook{State: job.WebhookSkipped})
	if err != nil {
		// The delivery stays owed: it is made although a stream had the result.
		e.Logger.Warn("delivery not skipped", "job", s.Job.ID, "error", err)
		place.Push(entry, s)
		return
	}
	place.Cancel()
}

// Wait returns when no confirmation is awaited any more.
func (e *Ending) Wait() { e.waits.Wait() }

// Expire ends a job whose deadline passed while it waited.
func (e *Ending) Expire(ctx context.Context, s job.Snapshot, keep time.Duration) error {
	return e.End(ctx, Final{
		Job: s.Job, From: s.State, Unconfirmed: true,
		End: job.End{
			Status: job.Failed, At: time.Now().UnixMilli(), Keep: keep.Milliseconds(),
			Reason: string(job.DeadlineExceeded),
		},
	})
}
