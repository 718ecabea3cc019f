package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// Intake takes calls as jobs. *intake.Intake is one.
type Intake interface {
	Submit(ctx context.Context, s intake.Submission) (intake.Receipt, error)
	// Void gives the key of a job back that has left no trace.
	Void(ctx context.Context, j *job.Job)
}

// Worker takes turns past the queue. *worker.Worker is one.
type Worker interface {
	Direct(ctx context.Context, t *queue.Turn) (worker.Answer, queue.Verdict)
}

// Hub tells what happens to a job. *events.Hub is one.
type Hub interface {
	Subscribe(id job.ID) *events.Subscription
}

// Config is what a Proxy is built from.
type Config struct {
	Intake Intake
	Worker Worker
	Hub    Hub
	// Attempts is the context of all attempts: it ends when those that are open are to be cut.
	Attempts context.Context
	// Room is where answers find room until they are recorded.
	Room *dispatch.Room
	// RelayBytes is how much memory the answers may have that callers are reading; 0 for no limit.
	RelayBytes int64
	// Load is how full a target's queue is, as one who waits in a lane of it sees it.
	Load func(l job.Lane) intake.Load
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Proxy tries calls. It is safe for concurrent use.
type Proxy struct {
	Config
	metrics metrics
	relays  *relays
}

// New returns a proxy.
func New(c Config) *Proxy {
	m := newMetrics(c.Registerer)
	return &Proxy{Config: c, metrics: m, relays: newRelays(c.RelayBytes, m.relaying)}
}

// Reason says why a call joins its target's queue. The set is closed.
type Reason string

// The reasons.
const (
	Overloaded       Reason = "upstream_overloaded"         // its answer says so
	Unreachable      Reason = "upstream_unreachable"        // there was no whole answer in time
	Degraded         Reason = "domain_degraded"             // work waits for the target, or it is spared for now
	DeadlineExceeded Reason = "execution_deadline_exceeded" // it was too late to call
)

// Reasons lists every reason.
func Reasons() []Reason { return []Reason{Overloaded, Unreachable, Degraded, DeadlineExceeded} }

// Result is what became of a call.
type Result struct {
	intake.Receipt
	// Relay is the target's answer, which the caller is to get; nil: what happens to the job is to be told. Its holder
	// closes it.
	Relay *Relay
	// Reason is why the job has joined the queue; empty if it has not: its key was known, or its answer is too large to be relayed,
	// by itself or beside the others that are.
	Reason Reason
	// UpstreamStatus is what the target has answered; 0 if that was not the reason.
	UpstreamStatus int
	// Live hears of what happens to the job; nil if it is relayed or was known. Its holder closes it.
	Live *events.Subscription
}

// NotDirectError is the error of a call that is for an attempt past the queue alone, when that has not helped.
type NotDirectError struct {
	Reason         Reason
	UpstreamStatus int // 0 if that is not the reason
}

// Error tells the reason.
func (e *NotDirectError) Error() string {
	if e.UpstreamStatus != 0 {
		return fmt.Sprintf("the target has not been of use at once: %s, it answered %d", e.Reason, e.UpstreamStatus)
	}
	return fmt.Sprintf("the target has not been of use at once: %s", e.Reason)
}

// Try takes a call and waits until its target has answered or the call has joined the queue. Errors are those of
// intake.Intake.Submit, with the load in Result, *NotDirectError, or that of ctx when its caller has left: then the attempt goes on,
// and its result is stored and delivered.
func (p *Proxy) Try(ctx context.Context, s intake.Submission) (Result, error) {
	c := &call{proxy: p, done: make(chan struct{})}
	why := Degraded
	if at := s.Request.ExecuteBefore; at != 0 && time.Now().UnixMilli() >= at {
		why = DeadlineExceeded
	} else {
		s.Direct = c
	}
	s.Stored = func(id job.ID) { c.live = p.Hub.Subscribe(id) }
	got, err := p.Intake.Submit(ctx, s)
	switch {
	case errors.Is(err, intake.ErrNotDirect):
		c.abandon()
		return Result{}, &NotDirectError{Reason: why}
	case err != nil, got.Duplicate:
		c.abandon()
		return Result{Receipt: got}, err
	case !got.Direct:
		p.metrics.fallback(why)
		return Result{Receipt: got, Reason: why, Live: c.live}, nil
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.leave() {
			return Result{}, ctx.Err()
		}
	}
	return c.result(got)
}
