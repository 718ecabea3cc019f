package node

import (
	"context"
	"net/http"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/handoff"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/webhook"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

// caller runs the turns of calls. Its context ends when the attempts that are open are to be cut.
type caller struct {
	ctx    context.Context
	room   *dispatch.Room
	worker *worker.Worker
}

// Run is queue.Runner.
func (c *caller) Run(_ context.Context, t *queue.Turn) queue.Verdict {
	lease := c.room.Lease(c.ctx)
	defer lease.End()
	return c.worker.Run(lease, t)
}

// deliverer runs the turns of deliveries.
type deliverer struct {
	ctx      context.Context
	nodeID   string
	payloads payloads
	holds    *handoff.Holds // nil: the node hands nothing over
	webhook  *webhook.Deliverer
	wake     func(at time.Time)
}

// Run is queue.Runner. A delivery that breaks this program has failed, and can be redriven.
func (d *deliverer) Run(_ context.Context, t *queue.Turn) (v queue.Verdict) {
	if !d.holds.Enter(t.Entry.ID) {
		return queue.Waits
	}
	defer d.holds.Free(t.Entry.ID)
	defer func() {
		if cause := recover(); cause != nil {
			d.webhook.Abandon(d.ctx, t.Entry.ID, cause)
			v = queue.Ended
		}
	}()
	lease, ok := d.payloads.lease(d.ctx, t)
	defer lease.End()
	if !ok {
		return queue.Waits
	}
	outcome, due := d.webhook.Deliver(lease, webhook.Turn{
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
		Method: http.MethodPost, URL: c.URL, Headers: c.Headers, Extra: c.Extra, Body: c.Body, Timeout: s.timeout(host),
	})
	crashpoint.Reach(crashpoint.Delivered)
	return webhook.Reply{Status: out.Status, Class: out.Class, Header: out.Header}
}
