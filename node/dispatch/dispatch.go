// Package dispatch makes one attempt at a target: one request, its whole answer, and what both mean,
// returned as values. The target gets the caller's bytes and headers as they were sent, and the node's
// own headers in place of those that only one hop may set.
//
// It does not retry, wait for its turn or write anything down. An attempt sends its request once:
// only one that was certainly not read goes out again within the attempt.
package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Config is what a Dispatcher is built from.
type Config struct {
	Client *egress.Client
	// MaxResponseBytes is how much of an answer's body is read; 0 for no limit.
	MaxResponseBytes int64
}

// Dispatcher makes attempts. It is safe for concurrent use.
type Dispatcher struct {
	client *egress.Client
	limit  int64 // of bytes to read; -1 for none
}

// New returns a dispatcher.
func New(c Config) *Dispatcher {
	d := &Dispatcher{client: c.Client, limit: c.MaxResponseBytes}
	if d.limit == 0 {
		d.limit = -1
	}
	return d
}

// Call is what goes to a target.
type Call struct {
	Method string
	URL    string
	// Headers are the caller's, sent in the caller's spelling.
	Headers []job.Header
	// Extra are ours; they replace those of Headers with the same name in any case.
	Extra []job.Header
	// Body goes out as it is; empty means none.
	Body []byte
	// Timeout bounds the whole attempt, from the name look-up to the last byte; 0 for no limit.
	Timeout time.Duration
}

// Do makes one attempt. It returns when the answer is read whole, the attempt has failed, or ctx
// ends, which Outcome.Canceled tells from a timeout. If ctx is made from a Lease, a large answer waits for
// its room there, which is no fault of the target: it is read only as fast. The signal is what the answer says about pace;
// it says nothing if the attempt did not get as far as the target could help.
func (d *Dispatcher) Do(ctx context.Context, c Call) (Outcome, pace.Signal) {
	o := Outcome{StartedAt: time.Now()}
	err := d.exchange(ctx, c, &o)
	o.Took = time.Since(o.StartedAt)
	if err != nil {
		o.fail(err, c.Timeout)
	}
	if o.learnsNothing() {
		return o, pace.Signal{}
	}
	failed := o.Retryable()
	s := pace.ReadSignal(o.Status, failed, o.Header, o.StartedAt.Add(o.Took))
	s.NoRetry = s.NoRetry && failed // of an answer that needs no retry it says nothing
	o.NoRetry, s.Unreachable = s.NoRetry, o.unreachable()
	return o, s
}

// exchange sends the request and reads the answer into o, its status and header also if the rest
// cannot be read.
func (d *Dispatcher) exchange(ctx context.Context, c Call, o *Outcome) error {
	r := egress.Request{Method: c.Method, URL: c.URL, Header: fields{c.Headers, c.Extra}.each, Body: c.Body}
	if c.Timeout > 0 {
		r.Deadline = o.StartedAt.Add(c.Timeout)
	}
	resp, err := d.client.Do(ctx, r) //nolint:bodyclose // ReadBody closes it
	if err != nil {
		return err
	}
	o.Status, o.Header = resp.StatusCode, resp.Header
	room := room{LeaseOf(ctx), ctx, r.Deadline}
	o.Body, o.Truncated, err = egress.ReadBody(resp, d.limit, room.take)
	return err
}

// room is where the answer of one attempt finds room.
type room struct {
	lease    *Lease
	ctx      context.Context
	deadline time.Time // of the attempt; zero for none
}

// take waits for room as long as the attempt may last. Its errors are those of an attempt.
func (r room) take(bytes int64) error {
	ctx := r.ctx
	if !r.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.deadline)
		defer cancel()
	}
	err := r.lease.Take(ctx, bytes)
	switch {
	case err == nil:
		return nil
	case r.ctx.Err() != nil:
		return &egress.Error{Cause: egress.Canceled, Sent: true, Err: context.Cause(r.ctx)}
	default:
		return &egress.Error{Cause: egress.Timeout, Sent: true, Err: errNoRoom}
	}
}

var errNoRoom = errors.New("no memory free for the answer")
