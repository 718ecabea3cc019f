package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// line is a queue as intake, the endings and the agenda see it.
type line struct{ *queue.Queue }

// Reserve is intake.Queue.
func (l line) Reserve(lane job.Lane, id job.ID) (intake.Place, intake.Load) {
	place := l.Queue.Reserve(lane, id)
	load := place.Load()
	return place, intake.Load{
		ActiveQueues: load.ActiveLanes, UpstreamBacklog: load.TargetBacklog, QueueBacklog: load.LaneBacklog,
	}
}

// Resume is agenda.Line.
func (l line) Resume(lane job.Lane, id job.ID) intake.Place { return l.Queue.Resume(lane, id) }

// caller runs the turns of calls. Its context ends when the attempts that are open are to be cut.
type caller struct {
	ctx    context.Context
	worker *worker.Worker
}

// Run is queue.Runner.
func (c *caller) Run(_ context.Context, t *queue.Turn) queue.Verdict { return c.worker.Run(c.ctx, t) }

// deliverer runs the turns of deliveries.
type deliverer struct {
	ctx     context.Context
	nodeID  string
	webhook *webhook.Deliverer
	wake    func(at time.Time)
}

// Run is queue.Runner. A delivery that breaks this program has failed, and can be redriven.
func (d *deliverer) Run(_ context.Context, t *queue.Turn) (v queue.Verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			d.webhook.Abandon(d.ctx, t.Entry.ID, cause)
			v = queue.Ended
		}
	}()
	outcome, due := d.webhook.Deliver(d.ctx, webhook.Turn{
		Entry: t.Entry, Held: t.Held, Release: t.Release,
		Headers: dispatch.Headers(dispatch.Identity{NodeID: d.nodeID}, worker.LoadOf(t)),
	})
	switch outcome {
	case webhook.Postponed:
		d.wake(due)
		return queue.Waits
	case webhook.Owed: // the node stops; the next process finds it where it is
		return queue.Waits
	default:
		crashpoint.Reach(crashpoint.Settled)
		return queue.Ended
	}
}

// sender makes the attempts of deliveries.
type sender struct {
	dispatcher *dispatch.Dispatcher
	timeout    func(host string) time.Duration
}

// Send is webhook.Sender.
func (s *sender) Send(ctx context.Context, c webhook.Call) webhook.Reply {
	host := job.Lane{Target: job.TargetOf(c.URL)}.Host()
	out, _ := s.dispatcher.Do(ctx, dispatch.Call{
		Method: http.MethodPost, URL: c.URL, Headers: c.Headers, Body: c.Body, Timeout: s.timeout(host),
	})
	crashpoint.Reach(crashpoint.Delivered)
	return webhook.Reply{Status: out.Status, Class: out.Class, Header: out.Header}
}

// gone reports whether an error says that there is nothing left to deliver.
func gone(err error) bool { return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrStale) }
