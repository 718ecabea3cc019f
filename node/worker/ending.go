package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/alarm"
	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/retry"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Ledger is what ending a job needs of the store.
type Ledger interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
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

// Deliveries is the queue of what is owed. *queue.Queue is one.
type Deliveries interface {
	Reserve(lane job.Lane, id job.ID) *queue.Place
}

// Holds are told which jobs are being ended, from before that is recorded until it is known whether the delivery is
// needed: nobody else may make it meanwhile.
type Holds interface {
	Hold(id job.ID)
	Free(id job.ID)
}

// EndingConfig is what an Ending is built from.
type EndingConfig struct {
	Ledger     Ledger
	Listeners  Listeners
	Deliveries Deliveries
	Holds      Holds // nil: the deliveries are nobody else's
	// Ended is told of each end that is recorded and leaves a trace, with the whole body of the answer if the result has it cut; nil
	// for nobody. It must not wait.
	Ended func(s job.Snapshot, payload []byte)
	// Void is told of each end that is recorded and leaves none; nil for nobody. It must not wait.
	Void   func(j *job.Job)
	Logger *slog.Logger
}

// Ending brings jobs to their end: the result and the owed delivery in one step of the store, then the
// listeners, then the delivery unless a listener has the result. It holds no slot of a target
// meanwhile. It is safe for concurrent use.
type Ending struct {
	EndingConfig
	steps *retry.Retrier // of the store
	waits sync.WaitGroup // confirmations that are awaited
}

// storeBackoff bounds the wait between two tries of a store that fails.
const storeBackoff = 10 * time.Second

// NewEnding returns an ending.
func NewEnding(c EndingConfig) *Ending {
	if c.Holds == nil {
		c.Holds = noHolds{}
	}
	return &Ending{EndingConfig: c, steps: retry.New(retry.Config{
		Limit: storeBackoff, Final: store.Final, Alarm: alarm.New(c.Logger, "job not recorded"),
	})}
}

// noHolds holds nothing.
type noHolds struct{}

func (noHolds) Hold(job.ID) {}
func (noHolds) Free(job.ID) {}

// Final is the end of one job.
type Final struct {
	Job     *job.Job
	From    job.State
	End     job.End
	Payload []byte // the whole body of the answer, if the result in End has it cut
	// Unconfirmed owes the delivery even if a stream sees the end.
	Unconfirmed bool
}

// End ends a job. It returns when the end is recorded; store.ErrStale says that it had ended before,
// and any other error that nothing was recorded, unless the store is closed.
func (e *Ending) End(ctx context.Context, f Final) error {
	void := f.Job.Void(f.End.Status)
	if void {
		f.End.Keep = 0
	}
	next, ok := f.From.Finish(f.End)
	if !ok {
		return store.ErrStale
	}
	e.Holds.Hold(f.Job.ID)
	defer e.Holds.Free(f.Job.ID)
	place := e.Deliveries.Reserve(f.Job.WebhookLane(), f.Job.ID)
	settle := place.Cancel
	defer func() { settle() }() // also if what is between breaks: a delivery that is owed is made
	entry, err := e.finish(ctx, store.Finish{Job: f.Job, Next: next, Payload: f.Payload})
	if err != nil {
		return err
	}
	s := &job.Snapshot{Job: f.Job, State: next, Webhook: job.Webhook{State: job.WebhookPending, Order: entry.Order}}
	settle = func() { place.Push(entry, s) }
	crashpoint.Reach(crashpoint.Recorded)
	e.logEnded(ctx, f, next)
	switch {
	case void:
		settle = func() { e.skip(ctx, s, place) }
		if e.Void != nil {
			e.Void(f.Job)
		}
	case e.Ended != nil:
		e.Ended(*s, f.Payload)
	}
	if !e.Listeners.Listening(f.Job.ID) {
		return nil
	}
	last := events.Terminal(*s, f.Payload)
	if f.Unconfirmed || void {
		e.Listeners.Publish(f.Job.ID, last)
		return nil
	}
	settle = func() {} // the confirmation does
	e.Holds.Hold(f.Job.ID)
	e.waits.Go(func() {
		defer e.Holds.Free(f.Job.ID)
		e.confirm(ctx, s, place, last)
	})
	return nil
}

func (e *Ending) finish(ctx context.Context, f store.Finish) (entry job.Entry, err error) {
	err = store.Certain(ctx, e.Ledger, f.Job.ID,
		func(ctx context.Context) error {
			entry, err = e.Ledger.Finish(ctx, f)
			return err
		},
		func(s job.Snapshot) bool {
			entry = job.Entry{Lane: f.Job.WebhookLane(), Order: s.Webhook.Order, ID: f.Job.ID}
			return s.State.Phase().Ended()
		})
	return entry, err
}

// confirm waits for a stream to have the result, and owes the delivery if none has.
func (e *Ending) confirm(ctx context.Context, s *job.Snapshot, place *queue.Place, last events.Event) {
	if !e.Listeners.End(ctx, s.Job.ID, last) {
		place.Push(e.owed(s), s)
		return
	}
	e.skip(ctx, s, place)
}

func (e *Ending) owed(s *job.Snapshot) job.Entry {
	return job.Entry{Lane: s.Job.WebhookLane(), Order: s.Webhook.Order, ID: s.Job.ID}
}

// skip settles a delivery that nobody needs.
func (e *Ending) skip(ctx context.Context, s *job.Snapshot, place *queue.Place) {
	err := e.steps.Do(ctx, "skip", s.Job.ID, func() error {
		return e.Ledger.Settle(context.WithoutCancel(ctx), s.Job.ID, job.Webhook{State: job.WebhookSkipped})
	})
	if err != nil && !store.MovedOn(err) {
		// The node stops. The next one delivers although a stream had the result.
		place.Push(e.owed(s), s)
		return
	}
	place.Cancel() // it is settled: now, or by a try before that had failed
}

// Wait returns when no confirmation is awaited any more.
func (e *Ending) Wait() { e.waits.Wait() }

// Expire ends a job whose deadline passed while it waited. Its delivery is owed even if a stream sees
// the end.
func (e *Ending) Expire(ctx context.Context, s job.Snapshot, keep time.Duration) error {
	return e.End(ctx, Final{
		Job: s.Job, From: s.State, Unconfirmed: true,
		End: job.End{
			Status: job.Failed, At: time.Now().UnixMilli(), Keep: keep.Milliseconds(),
			Reason: string(job.DeadlineExceeded),
		},
	})
}
