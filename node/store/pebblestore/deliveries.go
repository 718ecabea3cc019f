package pebblestore

import (
	"context"
	"errors"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Postpone is store.Transitions.Postpone.
func (s *Store) Postpone(ctx context.Context, e job.Entry, next job.Webhook) error {
	_, err := s.transition(ctx, e.ID, func(c *change) (func(job.Order), error) {
		if err := s.checkPlace(job.Deliveries, e); err != nil {
			return nil, err
		}
		next.Order = 0
		var buf [128]byte
		return func(job.Order) { s.places.remove(e.ID) }, errors.Join(
			c.dropPlace(job.Deliveries, e.Lane, e.Order),
			c.set(appendDue(buf[:0], next.DueAt, byte(store.DueDelivery), e.ID), appendLane(nil, e.Lane)),
			s.setRecord(c, kindWebhook, e.ID, next, 0))
	})
	return err
}

// Settle is store.Transitions.Settle.
func (s *Store) Settle(ctx context.Context, id job.ID, next job.Webhook) error {
	_, err := s.transition(ctx, id, func(c *change) (func(job.Order), error) {
		expiresAt, err := s.leaveDelivery(c, id)
		if err != nil {
			return nil, err
		}
		next.Order, next.DueAt = 0, 0
		var buf [64]byte
		return func(job.Order) { s.places.remove(id) }, errors.Join(
			s.setRecord(c, kindWebhook, id, next, 0),
			c.set(appendTimed(buf[:0], kindExpiry, expiresAt, id), nil))
	})
	return err
}

// leaveDelivery takes a pending delivery from where it waits, and its payload. It returns until when
// the job is kept.
func (s *Store) leaveDelivery(c *change, id job.ID) (int64, error) {
	var buf [64]byte
	if at, known := s.places.get(id); known {
		err := c.dropPlace(job.Deliveries, at.entry.Lane, at.entry.Order)
		if at.payload {
			err = errors.Join(err, c.batch.Delete(appendID(buf[:0], kindPayload, id), nil))
		}
		return at.expiresAt, err
	}
	now, err := s.snapshot(id)
	if err != nil {
		return 0, err
	}
	if now.Webhook.Phase() != job.WebhookPending {
		return 0, store.ErrStale
	}
	err = c.batch.Delete(appendID(buf[:0], kindPayload, id), nil)
	if now.Webhook.DueAt != 0 {
		err = errors.Join(err, c.drop(appendDue(buf[:0], now.Webhook.DueAt, byte(store.DueDelivery), id)))
	} else {
		err = errors.Join(err, c.dropPlace(job.Deliveries, now.Job.WebhookLane(), now.Webhook.Order))
	}
	return now.State.ExpiresAt, err
}

// Owe is store.Transitions.Owe.
func (s *Store) Owe(ctx context.Context, id job.ID) (job.Entry, error) {
	var lane job.Lane
	order, err := s.transition(ctx, id, func(c *change) (func(job.Order), error) {
		now, err := s.snapshot(id)
		if err != nil {
			return nil, err
		}
		if !now.Webhook.State.Settled() {
			return nil, store.ErrStale
		}
		lane = now.Job.WebhookLane()
		next := now.Webhook
		next.State, next.Order, next.DueAt, next.DeliveredAt = job.WebhookPending, 0, 0, 0
		var buf [64]byte
		err = errors.Join(
			c.drop(appendTimed(buf[:0], kindExpiry, now.State.ExpiresAt, id)),
			s.setRecord(c, kindWebhook, id, next, 0))
		c.placeRecord()
		return nil, errors.Join(err, c.setPlace(job.Deliveries, lane, id))
	})
	if err != nil {
		return job.Entry{}, err
	}
	return job.Entry{Lane: lane, Order: order, ID: id}, nil
}
