// Package worker carries a job through its turn at its target: it records that an attempt begins,
// has it made, judges the outcome, and records the end or the next try.
//
// Each step is durable before the next one that the world can see, so a process that dies in between
// leaves a job that the next one takes up. A worker holds its target's slot only while the call is
// open; a store that cannot record holds it longer, on purpose: a node that cannot write down what
// it does must not go on doing it.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what a worker needs of the job store.
type Store interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	Begin(ctx context.Context, e job.Entry, next job.State, startedAt time.Time) error
	Retry(ctx context.Context, e job.Entry, next job.State) error
}

// Sender makes one attempt at a target.
type Sender interface {
	Do(ctx context.Context, c dispatch.Call) (dispatch.Outcome, pace.Signal)
}

// Config is what a Worker is built from.
type Config struct {
	Store  Store
	Sender Sender
	Ending *Ending
	Policy Policy
	NodeID string
	// Timeout is how long an attempt at a host may take if the job does not say; 0 for no limit.
	Timeout func(host string) time.Duration
	// Wake is told when a retry comes due.
	Wake   func(at time.Time)
	Logger *slog.Logger
}

// Worker runs the turns of a queue of calls. It has no state and is safe for concurrent use.
type Worker struct{ Config }

// New returns a worker.
func New(c Config) *Worker { return &Worker{c} }

// Run takes one turn.
func (w *Worker) Run(ctx context.Context, t *queue.Turn) queue.Verdict {
	s, err := w.snapshot(ctx, t)
	if err != nil || s.State.Phase().Ended() {
		t.Release(pace.Signal{})
		return queue.Ended
	}
	if s.Job.Expired(time.Now()) {
		t.Release(pace.Signal{})
		w.persist(ctx, "expire", func(ctx context.Context) error { return w.Ending.Expire(ctx, s, w.Policy.FailedTTL) })
		return queue.Ended
	}
	next, ok := s.State.Begin(s.State.Tried + 1)
	if !ok {
		t.Release(pace.Signal{})
		return queue.Ended
	}
	s.State = next
	if !w.persist(ctx, "begin", func(ctx context.Context) error { return w.Store.Begin(ctx, t.Entry, s.State, time.Now()) }) {
		t.Release(pace.Signal{})
		return queue.Ended
	}
	return w.attempt(ctx, t, s)
}

// snapshot is the job of the turn, read until the store can be read or the job is gone.
func (w *Worker) snapshot(ctx context.Context, t *queue.Turn) (s job.Snapshot, err error) {
	if t.Held != nil {
		return *t.Held, nil
	}
	w.persist(ctx, "read", func(ctx context.Context) error {
		s, err = w.Store.Get(ctx, t.Entry.ID)
		return err
	})
	return s, err
}

// attempt makes the call and records what came of it.
func (w *Worker) attempt(ctx context.Context, t *queue.Turn, s job.Snapshot) queue.Verdict {
	w.Ending.Listeners.Publish(s.Job.ID, events.Dispatching(s))
	crashpoint.Reach(crashpoint.Begun)
	out, sig := w.Sender.Do(ctx, w.call(t, s))
	t.Release(sig)
	crashpoint.Reach(crashpoint.Answered)
	if ctx.Err() != nil && out.Class != "" {
		out.Class, sig = job.CrashedWorker, pace.Signal{Failed: true} // the node stops in the middle of the attempt
	}
	d := w.Policy.decide(s, out, sig, rand.Float64())
	if d.end != nil {
		f := Final{Job: s.Job, From: s.State, End: *d.end, Payload: d.payload}
		w.persist(ctx, "finish", func(ctx context.Context) error { return w.Ending.End(ctx, f) })
		return queue.Ended
	}
	next, ok := s.State.Retry(d.attempt, d.retryAt.UnixMilli())
	if !ok || !w.persist(ctx, "retry", func(ctx context.Context) error { return w.Store.Retry(ctx, t.Entry, next) }) {
		return queue.Ended
	}
	s.State = next
	w.Ending.Listeners.Publish(s.Job.ID, events.Retrying(s, d.reason))
	w.Wake(d.retryAt)
	return queue.Waits
}

// call is what goes to the target.
func (w *Worker) call(t *queue.Turn, s job.Snapshot) dispatch.Call {
	r := &s.Job.Request
	timeout := time.Duration(r.TimeoutMS) * time.Millisecond
	if r.TimeoutMS == job.UnsetTimeout {
		timeout = w.Timeout(t.Entry.Lane.Host())
	}
	return dispatch.Call{
		Method: r.Method, URL: r.URL, Headers: r.Headers, Body: r.Body, Timeout: timeout,
		Extra: dispatch.Headers(dispatch.Identity{
			NodeID: w.NodeID, JobID: s.Job.ID.String(), Attempt: s.State.Tried, KeyHash: r.Key().WireHash(),
		}, LoadOf(t)),
	}
}

// LoadOf is the load that a turn tells its target.
func LoadOf(t *queue.Turn) dispatch.Load {
	l := t.Load()
	return dispatch.Load{
		TotalJobs: l.Total, QueueDepth: l.Waiting, FlowRate: l.Rate,
		ActiveQueues: l.ActiveLanes, UpstreamBacklog: l.TargetBacklog,
	}
}

// persist does a step of the store until it is done, the job is beyond it, or the node stops. It
// reports whether the step was done. A store that fails is asked again, a little later each time:
// an outcome in hand must not get lost because a disk is full for a minute. A node that stops still
// records what it has in hand; the closing store ends the wait for a disk that takes nothing.
func (w *Worker) persist(ctx context.Context, step string, do func(context.Context) error) bool {
	recording := context.WithoutCancel(ctx)
	for failures := 0; ; failures++ {
		err := do(recording)
		switch {
		case err == nil:
			return true
		case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNotFound):
			w.Logger.Info("job has moved on", "step", step)
			return false
		case errors.Is(err, store.ErrClosed), ctx.Err() != nil:
			return false
		}
		w.Logger.Error("job not recorded", "step", step, "error", err)
		if !sleep(ctx, pace.Backoff(failures, 10*time.Second, rand.Float64())) {
			return false
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
