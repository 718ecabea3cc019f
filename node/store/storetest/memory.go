package storetest

import (
	"bytes"
	"context"
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// memory is a store open on a Disk, whose mutex guards everything.
type memory struct {
	disk    *Disk
	session int
	closed  atomic.Bool
	entered atomic.Uint64 // into the ledger
}

// read runs f on the disk's content.
func (m *memory) read(ctx context.Context, f func(*Disk) error) error {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if m.closed.Load() {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f(m.disk)
}

// change runs f, which checks and returns the change to make, and makes it as the disk's fault allows.
func (m *memory) change(ctx context.Context, method string, f func(*Disk) (func(), error)) error {
	return m.read(ctx, func(d *Disk) error {
		apply, err := f(d)
		if err != nil || apply == nil {
			return err
		}
		land := true
		if d.fault != nil {
			land, err = d.fault(method)
		}
		if land {
			apply()
			d.check(method)
		}
		return err
	})
}

func (m *memory) Insert(ctx context.Context, j *job.Job, d store.Durability) (store.Inserted, error) {
	got := store.Inserted{Durability: max(d, store.Flush)}
	err := m.change(ctx, "Insert", func(d *Disk) (func(), error) {
		hash := j.Request.Key().Hash()
		if r := d.live(d.keys[hash]); r != nil && j.RedriveOf.IsZero() {
			got.Holder = &store.Holder{ID: r.job.ID, Payload: r.job.Request.Payload()}
			return nil, nil
		}
		return func() {
			order := d.next()
			d.jobs[j.ID] = &record{job: j, key: hash, state: job.State{Order: order}}
			if j.RedriveOf.IsZero() {
				d.keys[hash] = j.ID
			}
			got.Entry = job.Entry{Lane: j.Lane(), Order: order, ID: j.ID}
		}, nil
	})
	if err != nil {
		return store.Inserted{}, err
	}
	return got, nil
}

func (m *memory) Find(ctx context.Context, key job.KeyHash) (h store.Holder, err error) {
	err = m.read(ctx, func(d *Disk) error {
		r := d.live(d.keys[key])
		if r == nil {
			return store.ErrNotFound
		}
		h = store.Holder{ID: r.job.ID, Payload: r.job.Request.Payload()}
		return nil
	})
	return h, err
}

func (m *memory) Get(ctx context.Context, id job.ID) (s job.Snapshot, err error) {
	err = m.with(ctx, id, func(r *record) { s = r.snapshot() })
	return s, err
}

// with runs f on a job that has not expired.
func (m *memory) with(ctx context.Context, id job.ID, f func(*record)) error {
	return m.read(ctx, func(d *Disk) error {
		r := d.live(id)
		if r == nil {
			return store.ErrNotFound
		}
		f(r)
		return nil
	})
}

func (r *record) snapshot() job.Snapshot {
	s := job.Snapshot{Job: r.job, State: r.state, Webhook: r.webhook}
	if r.open != nil {
		s.State.Tried = max(s.State.Tried, r.open.number)
		s.State.Direct = r.open.direct
	}
	return s
}

func (m *memory) Payload(ctx context.Context, id job.ID) (body []byte, err error) {
	err = m.with(ctx, id, func(r *record) {
		if r.payload != nil {
			body = bytes.Clone(r.payload)
		} else if r.state.Result != nil {
			body = r.state.Result.Body
		}
	})
	return body, err
}

func (m *memory) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = m.read(ctx, func(d *Disk) error {
		for _, id := range d.ids() {
			r := d.live(id)
			if r == nil || !q.Before.IsZero() && bytes.Compare(id[:], q.Before[:]) >= 0 {
				continue
			}
			if len(page.Jobs) == q.Limit {
				page.Next = page.Jobs[q.Limit-1].Job.ID
				return nil
			}
			if s := r.snapshot(); matches(s, q) {
				page.Jobs = append(page.Jobs, s)
			}
		}
		return nil
	})
	return page, err
}

func matches(s job.Snapshot, q store.Query) bool {
	return (q.UserID == "" || q.UserID == s.Job.Request.UserID) &&
		(q.Status == "" || q.Status == s.State.Phase()) &&
		(q.Target == "" || q.Target == s.Job.Lane().Host()) &&
		(q.Webhook == "" || q.Webhook == s.Webhook.Phase())
}

func (m *memory) Lane(
	ctx context.Context, line job.Line, lane job.Lane, after job.Order, limit int,
) (list []job.Entry, err error) {
	err = m.read(ctx, func(d *Disk) error {
		list = between(d.entries(line), lane, after, math.MaxUint64, limit)
		return nil
	})
	return list, err
}

func (m *memory) Ahead(
	ctx context.Context, line job.Line, lane job.Lane, after, before job.Order, limit int,
) (n int, err error) {
	err = m.read(ctx, func(d *Disk) error {
		n = len(between(d.entries(line), lane, after, before, limit))
		return nil
	})
	return n, err
}

func between(all []job.Entry, lane job.Lane, after, before job.Order, limit int) (list []job.Entry) {
	for _, e := range all {
		if e.Lane == lane && e.Order > after && e.Order < before && len(list) < limit {
			list = append(list, e)
		}
	}
	return list
}

func (m *memory) Waiting(ctx context.Context, line job.Line) iter.Seq2[job.Entry, error] {
	return each(ctx, m, func(d *Disk) []job.Entry { return d.entries(line) })
}

func (m *memory) Pending(ctx context.Context) iter.Seq2[store.Due, error] {
	return each(ctx, m, (*Disk).retries)
}

// each iterates over a list that is read at its start.
func each[T any](ctx context.Context, m *memory, list func(*Disk) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := m.read(ctx, func(d *Disk) error {
			all = list(d)
			return nil
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func (m *memory) Due(ctx context.Context, now time.Time, limit int) (list []store.Due, next time.Time, err error) {
	err = m.read(ctx, func(d *Disk) error {
		all := d.retries()
		for id, r := range d.jobs {
			if r.open == nil && r.peer == "" && !r.state.Phase().Ended() {
				all = append(all, store.Due{At: r.job.Deadline, Kind: store.DueDeadline, ID: id, Lane: r.job.Lane()})
			}
		}
		for _, x := range sortDue(all) {
			if x.At >= now.Add(store.DueHorizon).UnixMilli() {
				return nil
			}
			if x.At > now.UnixMilli() || len(list) == limit {
				next = time.UnixMilli(x.At)
				return nil
			}
			list = append(list, x)
		}
		return nil
	})
	return list, next, err
}

func (m *memory) Usage() store.Usage { return store.Usage{} }

func (m *memory) Sync(ctx context.Context) error {
	return m.change(ctx, "Sync", func(*Disk) (func(), error) { return func() {}, nil })
}

func (m *memory) Close() error {
	m.closed.Store(true)
	return nil
}
