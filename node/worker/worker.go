// Package worker carries a job through its turn at its target: it records that an attempt begins,
// has it made, judges the outcome, and records the end or the next try.
//
// Each step is recorded before the next one that the world can see, so a process that dies in between
// leaves a job that the next one takes up. A worker holds its target's slot while the attempt is
// recorded and while the call is open, not while the outcome is recorded: a node that cannot write
// down what it does stops when all slots wait for the beginning of an attempt.
package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	// DirectTimeout is how long an attempt past the queue may take at most.
	DirectTimeout time.Duration
	// Wake is told when a retry comes due.
	Wake   func(at time.Time)
	Logger *slog.Logger
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Worker runs the turns of a queue of calls. Only its metrics and its quarantine change, which are safe
// for concurrent use, as it is.
type Worker struct {
	Config
	metrics    metrics
	quarantine quarantine
}

// New returns a worker.
func New(c Config) *Worker {
	return &Worker{Config: c, metrics: newMetrics(c.Registerer), quarantine: newQuarantine()}
}

// Run takes one turn. It returns when the outcome is recorded. When ctx ends, the attempt is cut, what
// is known is still recorded, and a job that is unfinished then stays where it is, for the next process.
func (w *Worker) Run(ctx context.Context, t *queue.Turn) queue.Verdict { return w.run(ctx, t, nil) }

// run takes a turn; past the queue, if direct is not nil, where it then writes how it went.
func (w *Worker) run(ctx context.Context, t *queue.Turn, direct *Answer) (v queue.Verdict) {
	started := time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			w.Logger.Error("turn panicked", "job_id", t.Entry.ID.String(), "panic", cause, "stack", string(debug.Stack()))
			t.Release(pace.Signal{})
			v = w.abandon(ctx, t.Entry.ID, started)
		}
	}()
	return w.turn(ctx, t, direct)
}

func (w *Worker) turn(ctx context.Context, t *queue.Turn, direct *Answer) queue.Verdict {
	s, err := w.snapshot(ctx, t)
	if err != nil {
		return w.leave("read", err)
	}
	if suspect(s.State) {
		defer w.quarantine.enter(ctx, s.Job.Deadline)()
	}
	if s.Job.Expired(time.Now()) {
		t.Release(pace.Signal{})
		return w.step(ctx, "expire", s.Job.ID, func() error { return w.Ending.Expire(ctx, s, w.Policy.FailedTTL) })
	}
	if s.Job.DirectOnly && direct == nil {
		return w.giveUp(ctx, t, s)
	}
	next, ok := s.State.Begin(s.State.Tried + 1)
	if !ok {
		return queue.Ended
	}
	if ctx.Err() != nil {
		return queue.Waits
	}
	next.Direct = next.Direct || direct != nil
	if err := w.begin(ctx, t.Entry, next); err != nil {
		return w.leave("begin", err)
	}
	s.State = next
	return w.attempt(ctx, t, s, direct)
}

// snapshot is the job of the turn.
func (w *Worker) snapshot(ctx context.Context, t *queue.Turn) (job.Snapshot, error) {
	if t.Held != nil {
		return *t.Held, nil
	}
	return w.read(ctx, t.Entry.ID)
}

// read reads a job until the store can be read or the job is gone.
func (w *Worker) read(ctx context.Context, id job.ID) (s job.Snapshot, err error) {
	err = w.Ending.steps.Do(ctx, "read", id, func() error {
		s, err = w.Store.Get(context.WithoutCancel(ctx), id)
		return err
	})
	return s, err
}

func (w *Worker) begin(ctx context.Context, e job.Entry, next job.State) error {
	return w.Ending.steps.Do(ctx, "begin", e.ID, func() error {
		return store.Certain(ctx, w.Store, e.ID,
			func(ctx context.Context) error { return w.Store.Begin(ctx, e, next, time.Now()) },
			func(s job.Snapshot) bool { return s.State.Tried == next.Tried })
	})
}

// giveUp ends a job that was for an attempt past the queue alone, of which the last process has not seen the end.
func (w *Worker) giveUp(ctx context.Context, t *queue.Turn, s job.Snapshot) queue.Verdict {
	t.Release(pace.Signal{})
	f := Final{Job: s.Job, From: s.State, End: job.End{
		Status: job.Failed, At: time.Now().UnixMilli(), Reason: string(job.CrashedWorker),
	}}
	return w.step(ctx, "give up", s.Job.ID, func() error { return w.Ending.End(ctx, f) })
}

// attempt makes the call and records what came of it.
func (w *Worker) attempt(ctx context.Context, t *queue.Turn, s job.Snapshot, direct *Answer) queue.Verdict {
	w.Ending.Listeners.Publish(s.Job.ID, events.Dispatching(s))
	crashpoint.Reach(crashpoint.Begun)
	w.logBegun(ctx, s)
	d, out := w.send(ctx, t, s, direct != nil)
	w.metrics.attempt(d)
	w.logEnded(ctx, s.Job, &d.attempt)
	if d.end != nil {
		f := Final{Job: s.Job, From: s.State, End: *d.end, Payload: d.payload}
		v := w.step(ctx, "finish", s.Job.ID, func() error { return w.Ending.End(ctx, f) })
		direct.tell(out, v == queue.Ended, d.end.Status == job.Completed)
		return v
	}
	direct.tell(out, false, false)
	next, ok := s.State.Retry(d.attempt, d.retryAt.UnixMilli())
	if !ok {
		return queue.Ended
	}
	if err := w.retry(ctx, t.Entry, next); err != nil {
		return w.leave("retry", err)
	}
	direct.tell(out, true, false)
	s.State = next
	w.logRetry(ctx, s.Job, &d.attempt)
	w.Ending.Listeners.Publish(s.Job.ID, events.Retrying(s, d.reason))
	w.Wake(d.retryAt)
	return queue.Waits
}

// send makes the call, gives the slot back and decides.
func (w *Worker) send(ctx context.Context, t *queue.Turn, s job.Snapshot, direct bool) (decision, dispatch.Outcome) {
	c := w.call(t, s)
	if direct && (c.Timeout == 0 || c.Timeout > w.DirectTimeout) {
		c.Timeout = w.DirectTimeout
	}
	out, sig := w.Sender.Do(ctx, c)
	dispatch.LeaseOf(ctx).Keep(int64(cap(out.Body))) // its length is known now
	if direct && sig.Status != 0 {
		sig.Overload = pace.ReadOverload(out.Status, out.Header, out.StartedAt.Add(out.Took))
	}
	sig.RetryAfter = sig.RetryAfter.UpTo(w.Policy.RetryAfterMax)
	t.Release(sig)
	crashpoint.Reach(crashpoint.Answered)
	if direct {
		return w.Policy.decideDirect(s, out, sig), out
	}
	return w.Policy.decide(s, out, sig.RetryAfter, rand.Float64()), out
}

func (w *Worker) retry(ctx context.Context, e job.Entry, next job.State) error {
	return w.Ending.steps.Do(ctx, "retry", e.ID, func() error {
		return store.Certain(ctx, w.Store, e.ID,
			func(ctx context.Context) error { return w.Store.Retry(ctx, e, next) },
			func(s job.Snapshot) bool { return !s.State.Open() })
	})
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

// abandon fails a job in whose turn this program broke: another try would break it again.
func (w *Worker) abandon(ctx context.Context, id job.ID, started time.Time) queue.Verdict {
	s, err := w.read(ctx, id)
	switch {
	case err != nil:
		return w.leave("read", err)
	case s.State.Phase().Ended():
		return queue.Ended
	case s.State.DueAt != 0: // the turn had done its part
		return queue.Waits
	}
	now := time.Now()
	end := job.End{
		Status: job.Failed, At: now.UnixMilli(), Keep: w.Policy.FailedTTL.Milliseconds(), Reason: job.ReasonPanic,
	}
	if s.State.Open() {
		end.Last = &job.Attempt{
			Number: s.State.Tried, StartedAt: started.UnixMilli(), DurationMS: now.Sub(started).Milliseconds(),
			Error: job.Internal, MaybeExecuted: true,
		}
	}
	f := Final{Job: s.Job, From: s.State, End: end}
	return w.step(ctx, "fail", id, func() error { return w.Ending.End(ctx, f) })
}

// step does the last step of a job's life.
func (w *Worker) step(ctx context.Context, name string, id job.ID, do func() error) queue.Verdict {
	if err := w.Ending.steps.Do(ctx, name, id, do); err != nil {
		return w.leave(name, err)
	}
	return queue.Ended
}

// leave says where a job stands whose turn could not go on: elsewhere, because it had moved on before,
// or where it was, because the node stops. It counts as backlog then, but waits for the next process.
func (w *Worker) leave(step string, err error) queue.Verdict {
	if store.MovedOn(err) {
		w.Logger.Warn("job has moved on", "step", step, "error", err)
		return queue.Ended
	}
	return queue.Waits
}
