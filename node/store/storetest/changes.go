package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// alter changes one job that has not expired. f checks and returns the change.
func (m *memory) alter(ctx context.Context, method string, id job.ID, f func(*Disk, *record) (func(), error)) error {
	return m.change(ctx, method, func(d *Disk) (func(), error) {
		r := d.live(id)
		if r == nil {
			return nil, store.ErrNotFound
		}
		if r.peer != "" {
			return nil, store.ErrStale
		}
		return f(d, r)
	})
}

// stale turns the absence of a job into a stale transition, for methods that name a place.
func stale(err error) error {
	if err == store.ErrNotFound {
		return store.ErrStale
	}
	return err
}

func (m *memory) Begin(ctx context.Context, e job.Entry, next job.State, startedAt time.Time) error {
	return stale(m.alter(ctx, "Begin", e.ID, func(d *Disk, r *record) (func(), error) {
		if lane, order, _ := r.line(job.Calls); r.open != nil || lane != e.Lane || order == 0 || order != e.Order {
			return nil, store.ErrStale
		}
		return func() {
			r.open = &openAttempt{number: next.Tried, startedAt: startedAt.UnixMilli(), direct: next.Direct, session: m.session}
		}, nil
	}))
}

func (m *memory) Retry(ctx context.Context, e job.Entry, next job.State) error {
	return stale(m.alter(ctx, "Retry", e.ID, func(d *Disk, r *record) (func(), error) {
		if r.open == nil || r.open.number != next.Tried {
			return nil, store.ErrStale
		}
		return func() {
			next.Order = 0
			r.state, r.open = next, nil
		}, nil
	}))
}

func (m *memory) Finish(ctx context.Context, f store.Finish) (e job.Entry, err error) {
	err = m.alter(ctx, "Finish", f.Job.ID, func(d *Disk, r *record) (func(), error) {
		if r.state.Phase().Ended() || f.Next.Tried != r.tried() {
			return nil, store.ErrStale
		}
		return func() {
			r.state, r.open, r.payload = f.Next, nil, f.Payload
			r.state.Order, r.state.DueAt = 0, 0
			r.webhook = job.Webhook{State: job.WebhookPending, Order: d.next()}
			e = job.Entry{Lane: r.job.WebhookLane(), Order: r.webhook.Order, ID: r.job.ID}
			m.enter(r, e.Order)
		}, nil
	})
	if err != nil {
		return job.Entry{}, err
	}
	return e, nil
}

func (m *memory) Record(ctx context.Context, id job.ID, next job.State) error {
	return m.alter(ctx, "Record", id, func(d *Disk, r *record) (func(), error) {
		if r.state.Phase() != next.Phase() || r.tried() != next.Tried {
			return nil, store.ErrStale
		}
		return func() {
			if r.open != nil && next.Recorded(r.open.number) {
				r.open = nil
			}
			next.Order, next.DueAt = r.state.Order, r.state.DueAt
			r.state = next
		}, nil
	})
}

func (m *memory) Postpone(ctx context.Context, e job.Entry, next job.Webhook) error {
	return stale(m.alter(ctx, "Postpone", e.ID, func(d *Disk, r *record) (func(), error) {
		if lane, order, _ := r.line(job.Deliveries); lane != e.Lane || order == 0 || order != e.Order {
			return nil, store.ErrStale
		}
		return func() {
			next.Order = 0
			r.webhook = next
		}, nil
	}))
}

func (m *memory) Settle(ctx context.Context, id job.ID, next job.Webhook) error {
	return m.alter(ctx, "Settle", id, func(d *Disk, r *record) (func(), error) {
		if r.webhook.Phase() != job.WebhookPending {
			return nil, store.ErrStale
		}
		return func() {
			next.Order, next.DueAt = 0, 0
			r.webhook = next
			if !next.State.Owable() {
				r.payload = nil
			}
		}, nil
	})
}

func (m *memory) Owe(ctx context.Context, id job.ID) (e job.Entry, err error) {
	err = m.alter(ctx, "Owe", id, func(d *Disk, r *record) (func(), error) {
		if !r.webhook.State.Settled() {
			return nil, store.ErrStale
		}
		return func() {
			r.webhook = job.Webhook{State: job.WebhookPending, Order: d.next()}
			e = job.Entry{Lane: r.job.WebhookLane(), Order: r.webhook.Order, ID: id}
		}, nil
	})
	return e, err
}

func (m *memory) Requeue(ctx context.Context, due store.Due) (e job.Entry, err error) {
	lines := map[store.DueKind]job.Line{store.DueCall: job.Calls, store.DueDelivery: job.Deliveries}
	line, ok := lines[due.Kind]
	if !ok {
		return job.Entry{}, fmt.Errorf("only calls and deliveries can be requeued, got kind %d", due.Kind)
	}
	err = m.alter(ctx, "Requeue", due.ID, func(d *Disk, r *record) (func(), error) {
		lane, _, at := r.line(line)
		if at == 0 || at != due.At {
			return nil, store.ErrStale
		}
		return func() {
			e = job.Entry{Lane: lane, Order: d.next(), ID: due.ID}
			if line == job.Calls {
				r.state.Order, r.state.DueAt = e.Order, 0
			} else {
				r.webhook.Order, r.webhook.DueAt = e.Order, 0
			}
		}, nil
	})
	return e, stale(err)
}

func (m *memory) Interrupted(ctx context.Context) (list []store.Interrupted, err error) {
	err = m.read(ctx, func(d *Disk) error {
		for id, r := range d.jobs {
			if r.open != nil && r.open.session != m.session {
				list = append(list, store.Interrupted{
					Entry:   job.Entry{Lane: r.job.Lane(), Order: r.state.Order, ID: id},
					Attempt: r.open.number, StartedAt: r.open.startedAt,
				})
			}
		}
		return nil
	})
	return list, err
}

func (m *memory) Expire(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = m.change(ctx, "Expire", func(d *Disk) (func(), error) {
		return func() {
			for _, r := range d.jobs {
				if n == limit || !r.expired(now) {
					continue
				}
				n++
				d.retire(r)
			}
			for id, gone := range d.left {
				if now.Sub(gone.at) > store.LeftFor {
					delete(d.left, id)
				}
			}
		}, nil
	})
	return n, err
}
