package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/alarm"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/retry"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what deliveries need of durable storage, where they are owed.
type Store interface {
	// Get returns the job whose result is owed.
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	// Payload returns the whole body of the answer that is owed, which Get may return cut.
	Payload(ctx context.Context, id job.ID) ([]byte, error)
	// Postpone takes a delivery out of its lane until next.DueAt.
	Postpone(ctx context.Context, e job.Entry, next job.Webhook) error
	// Settle ends a delivery.
	Settle(ctx context.Context, id job.ID, next job.Webhook) error
}

// Sender makes one attempt: a POST that follows no redirect.
type Sender interface {
	Send(ctx context.Context, c Call) Reply
}

// Call is what goes to the receiver.
type Call struct {
	URL     string
	Headers []job.Header // of the delivery
	Extra   []job.Header // of the turn
	Body    []byte
}

// Config is what a Deliverer is built from.
type Config struct {
	Store      Store
	Sender     Sender
	Policy     Policy
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Deliverer takes the turns of owed deliveries. It has no state of its own and is safe for
// concurrent use; that one delivery has one turn at a time is the care of who gives the turns.
type Deliverer struct {
	Config
	metrics metrics
	steps   *retry.Retrier // of the store
}

// storeBackoff bounds the wait between two tries of a store that fails.
const storeBackoff = 30 * time.Second

// New returns a deliverer.
func New(c Config) *Deliverer {
	return &Deliverer{Config: c, metrics: newMetrics(c.Registerer), steps: retry.New(retry.Config{
		Limit: storeBackoff, Final: store.Final, Alarm: alarm.New(c.Logger, "webhook delivery waits for the store"),
	})}
}

// Turn is a delivery's leave to be sent now.
type Turn struct {
	Entry job.Entry
	// Held is the job if it is at hand; nil: it is read from the store.
	Held *job.Snapshot
	// Headers go onto the call besides those of the delivery itself.
	Headers []job.Header
	// Release gives the receiver's slot back, with what its answer says about pace. It is called once
	// in each turn.
	Release func(pace.Signal)
}

// Outcome is where a delivery stands after its turn.
type Outcome uint8

const (
	// Settled: the delivery is over, or was so before.
	Settled Outcome = iota + 1
	// Postponed: it waits among what is due.
	Postponed
	// Owed: nothing was recorded, because the process stops. It stands where it stood, for the next
	// process.
	Owed
)

// Deliver takes one turn: it sends the result of the job and records what became of it. It returns
// when the delivery is due again if the outcome is Postponed.
//
// When ctx ends, an answer that is there is still recorded, an attempt that was cut off is not.
func (d *Deliverer) Deliver(ctx context.Context, t Turn) (_ Outcome, due time.Time) {
	var signal pace.Signal
	defer func() { t.Release(signal) }()

	call, s, outcome := d.prepare(ctx, t)
	if outcome != 0 {
		return outcome, time.Time{}
	}
	began := time.Now()
	reply := d.Sender.Send(ctx, call)
	if reply.Status == 0 && ctx.Err() != nil {
		return Owed, time.Time{}
	}
	var next job.Webhook
	now := time.Now()
	next, signal = d.Policy.next(s.Webhook, reply, now, rand.Float64())
	d.log(ctx, t.Entry, next, now.Sub(began))
	return d.settle(ctx, t.Entry, next)
}

// Abandon settles a delivery as failed whose turn broke this program.
func (d *Deliverer) Abandon(ctx context.Context, id job.ID, cause any) {
	d.Logger.Error("webhook delivery panicked", "job_id", id, "panic", cause, "stack", string(debug.Stack()))
	whole := context.WithoutCancel(ctx)
	d.persist(ctx, id, "abandon", func() error {
		s, err := d.Store.Get(whole, id)
		if err != nil {
			return err
		}
		next := s.Webhook
		next.State, next.Attempts, next.LastStatus, next.LastError = job.WebhookFailed, next.Attempts+1, 0, job.Internal
		next.Order, next.DueAt = 0, 0
		return d.Store.Settle(whole, id, next)
	})
}

// prepare reads what is owed and makes the call of it, or says that there is nothing to send.
func (d *Deliverer) prepare(ctx context.Context, t Turn) (c Call, s job.Snapshot, o Outcome) {
	var body []byte
	whole := context.WithoutCancel(ctx)
	o = d.persist(ctx, t.Entry.ID, "read", func() (err error) {
		if s, err = d.snapshot(whole, t); err == nil && s.Webhook.Phase() == job.WebhookPending {
			body, err = d.body(whole, s)
		}
		return err
	})
	if o != 0 {
		return Call{}, s, o
	}
	switch {
	case s.Webhook.Phase() != job.WebhookPending:
		return Call{}, s, Settled
	case s.Job.Void(s.State.Phase()): // whoever handed it in has been told otherwise, or has gone elsewhere
		o = d.persist(ctx, t.Entry.ID, "skip", func() error {
			return d.Store.Settle(whole, t.Entry.ID, job.Webhook{State: job.WebhookSkipped})
		})
		return Call{}, s, cmp.Or(o, Settled)
	}
	return Call{URL: s.Job.Request.WebhookURL, Headers: headers(s), Extra: t.Headers, Body: body}, s, 0
}

func (d *Deliverer) snapshot(ctx context.Context, t Turn) (job.Snapshot, error) {
	if t.Held != nil {
		return *t.Held, nil
	}
	return d.Store.Get(ctx, t.Entry.ID)
}

// body is what is sent. A payload may have been dropped when the delivery was settled: if it is then
// owed again, the receiver gets the part that is kept, marked as such.
func (d *Deliverer) body(ctx context.Context, s job.Snapshot) ([]byte, error) {
	r := s.State.Result
	if r == nil || !r.Truncated {
		return Body(s, nil)
	}
	payload, err := d.Store.Payload(ctx, s.Job.ID)
	switch {
	case err != nil && !store.MovedOn(err):
		return nil, err
	case err != nil || len(payload) <= len(r.Body): // it is the part that s has, or nothing
		payload = nil
	}
	return Body(s, payload)
}

// settle records the outcome of an attempt.
func (d *Deliverer) settle(ctx context.Context, e job.Entry, next job.Webhook) (Outcome, time.Time) {
	d.metrics.attempt(next.State)
	done, due := Settled, time.Time{}
	record := func(ctx context.Context) error { return d.Store.Settle(ctx, e.ID, next) }
	recorded := func(s job.Snapshot) bool { return s.Webhook.State.Settled() }
	if next.State == job.WebhookPending {
		done, due = Postponed, time.UnixMilli(next.DueAt)
		record = func(ctx context.Context) error { return d.Store.Postpone(ctx, e, next) }
		recorded = func(s job.Snapshot) bool {
			return s.Webhook.Phase() == job.WebhookPending && s.Webhook.Attempts == next.Attempts
		}
	}
	o := d.persist(ctx, e.ID, "record", func() error { return store.Certain(ctx, d.Store, e.ID, record, recorded) })
	if o != 0 {
		return o, time.Time{}
	}
	return done, due
}

// persist does a step of the store until it is done. It returns Settled when there is nothing left to
// do it to, Owed when ctx or the store ended first, else 0.
func (d *Deliverer) persist(ctx context.Context, id job.ID, step string, do func() error) Outcome {
	switch err := d.steps.Do(ctx, step, id, do); {
	case err == nil:
		return 0
	case store.MovedOn(err):
		return Settled
	default:
		return Owed
	}
}

// DeliveryID is the id of the delivery of a job's result, the same in every attempt.
func DeliveryID(id job.ID) string { return "webhook:" + id.String() }

// headers returns the headers that tell of the delivery.
func headers(s job.Snapshot) []job.Header {
	id, attempt := DeliveryID(s.Job.ID), strconv.Itoa(s.Webhook.Attempts+1)
	return []job.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "X-Aqueduct-Delivery-Id", Value: id},
		{Name: "X-Aquifer-Delivery-Id", Value: id},
		{Name: "X-Aqueduct-Delivery-Attempt", Value: attempt},
		{Name: "X-Aquifer-Delivery-Attempt", Value: attempt},
	}
}
