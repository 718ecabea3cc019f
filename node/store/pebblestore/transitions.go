package pebblestore

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// transition builds a change of one job under the claim on it and commits it. build reads what it needs
// and returns what to do, before the answer, when the change has been made; that may be nil.
func (s *Store) transition(
	ctx context.Context, id job.ID, build func(*change) (func(job.Order), error),
) (job.Order, error) {
	if err := s.jobs.take(ctx, id); err != nil {
		return 0, s.waited(err)
	}
	leave, err := s.read(ctx)
	if err != nil {
		s.jobs.release(id)
		return 0, err
	}
	c := s.newChange()
	c.release = func() { s.jobs.release(id) }
	if _, offered := s.offers.get(id); offered {
		err = store.ErrStale
	} else {
		c.made, err = build(c)
	}
	leave()
	if err != nil {
		return 0, s.abandon(c, err)
	}
	return s.commit(ctx, c)
}

// Begin is store.Transitions.Begin.
func (s *Store) Begin(ctx context.Context, e job.Entry, next job.State, startedAt time.Time) error {
	_, err := s.transition(ctx, e.ID, func(c *change) (func(job.Order), error) {
		if _, open := s.attempts.get(e.ID); open {
			return nil, store.ErrStale
		}
		if at, known := s.waiting.get(e.ID); !known || at.entry != e {
			if err := s.checkPlace(job.Calls, e); err != nil {
				return nil, err
			}
		}
		rec := attempt{Number: next.Tried, StartedAt: startedAt.UnixMilli(), Direct: next.Direct}
		open := openAttempt{number: rec.Number, startedAt: rec.StartedAt, direct: rec.Direct, place: e}
		return func(job.Order) {
			s.waiting.remove(e.ID)
			s.attempts.set(open)
		}, s.setRecord(c, appendID(nil, kindAttempt, e.ID), &rec, e.Order)
	})
	return err
}

// checkPlace returns store.ErrStale unless the entry stands in its lane.
func (s *Store) checkPlace(line job.Line, e job.Entry) error {
	var buf [128]byte
	err := s.get(appendPlace(buf[:0], line, e.Lane, e.Order), func(value []byte) error {
		if string(value) != string(e.ID[:]) {
			return store.ErrStale
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrStale
	}
	return err
}

// Retry is store.Transitions.Retry.
func (s *Store) Retry(ctx context.Context, e job.Entry, next job.State) error {
	_, err := s.transition(ctx, e.ID, func(c *change) (func(job.Order), error) {
		open, ok := s.attempts.get(e.ID)
		if !ok || open.number != next.Tried {
			return nil, store.ErrStale
		}
		next.Order = 0
		c.closeAttempt(open)
		c.set(appendDue(nil, next.DueAt, byte(store.DueCall), e.ID), appendLane(nil, open.place.Lane))
		return func(job.Order) { s.attempts.remove(e.ID) },
			s.setRecord(c, appendID(nil, kindState, e.ID), &next, 0)
	})
	return err
}

// closeAttempt takes the attempt and the job's place in its lane away.
func (c *change) closeAttempt(open openAttempt) {
	var buf [1 + idLen]byte
	c.drop(appendID(buf[:0], kindAttempt, open.place.ID))
	c.dropPlace(job.Calls, open.place.Lane, open.place.Order)
}

// Finish is store.Transitions.Finish. Where the job waits is read from what is stored.
func (s *Store) Finish(ctx context.Context, f store.Finish) (job.Entry, error) {
	id, lane := f.Job.ID, f.Job.WebhookLane()
	order, err := s.transition(ctx, id, func(c *change) (func(job.Order), error) {
		if err := s.leave(c, f); err != nil {
			return nil, err
		}
		var buf [64]byte
		c.drop(appendTimed(buf[:0], kindDeadline, f.Job.Deadline, id))
		if f.Payload != nil {
			c.set(appendID(buf[:0], kindPayload, id), f.Payload)
		}
		next := f.Next
		next.Order, next.DueAt = 0, 0
		err := s.setRecord(c, appendID(buf[:0], kindState, id), &next, 0)
		c.placeRecord()
		c.setPlace(job.Deliveries, lane, id)
		entered := s.ledger.keep && !f.Job.Void(next.Phase())
		if entered {
			err = errors.Join(err, s.enter(c, f))
		}
		return func(order job.Order) {
			if entered {
				s.ledger.made.Add(1)
			}
			s.attempts.remove(id)
			s.waiting.remove(id)
			s.owed.put(place{
				entry: job.Entry{Lane: lane, Order: order, ID: id}, expiresAt: next.ExpiresAt, payload: f.Payload != nil,
			})
		}, err
	})
	if err != nil {
		return job.Entry{}, err
	}
	return job.Entry{Lane: lane, Order: order, ID: id}, nil
}

// leave takes a job that ends from where it waits.
func (s *Store) leave(c *change, f store.Finish) error {
	if open, ok := s.attempts.get(f.Job.ID); ok {
		if open.number != f.Next.Tried {
			return store.ErrStale
		}
		c.closeAttempt(open)
		return nil
	}
	now, err := s.snapshot(f.Job.ID)
	switch {
	case err != nil:
		return err
	case now.State.Phase().Ended() || now.State.Tried != f.Next.Tried:
		return store.ErrStale
	case now.State.DueAt != 0:
		c.drop(appendDue(nil, now.State.DueAt, byte(store.DueCall), f.Job.ID))
	default:
		c.dropPlace(job.Calls, f.Job.Lane(), now.State.Order)
	}
	return nil
}

// Record is store.Transitions.Record.
func (s *Store) Record(ctx context.Context, id job.ID, next job.State) error {
	_, err := s.transition(ctx, id, func(c *change) (func(job.Order), error) {
		now, err := s.snapshot(id)
		if err != nil {
			return nil, err
		}
		open, isOpen := s.attempts.get(id)
		if now.State.Phase() != next.Phase() || now.State.Tried != next.Tried || isOpen && open.number != next.Tried {
			return nil, store.ErrStale
		}
		place := now.State.Order
		if next.Phase().Ended() { // the record then has the place of the delivery
			place, err = s.record(kindState, id, &now.State)
		}
		closes := isOpen && next.Recorded(open.number)
		if closes {
			c.drop(appendID(nil, kindAttempt, id))
		}
		next.Order, next.DueAt, next.ExpiresAt = 0, now.State.DueAt, now.State.ExpiresAt
		return func(job.Order) {
			if closes {
				s.attempts.remove(id)
			}
		}, errors.Join(err, s.setRecord(c, appendID(nil, kindState, id), &next, place))
	})
	return err
}
