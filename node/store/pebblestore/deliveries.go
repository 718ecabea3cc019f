package pebblestore

import (
	"context"

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
		c.dropPlace(job.Deliveries, e.Lane, e.Order)
		c.set(appendDue(nil, next.DueAt, byte(store.DueDelivery), e.ID), appendLane(nil, e.Lane))
		return func(job.Order) { s.owed.remove(e.ID) },
			s.setRecord(c, appendID(nil, kindWebhook, e.ID), &next, 0)
	})
	return err
}

// Settle is store.Transitions.Settle.
func (s *Store) Settle(ctx context.Context, id job.ID, next job.Webhook) error {
	_, err := s.transition(ctx, id, func(c *change) (func(job.Order), error) {
		expiresAt, err := s.leaveDelivery(c, id, next.State.Owable())
		if err != nil {
			return nil, err
		}
		next.Order, next.DueAt = 0, 0
		return func(job.Order) { s.owed.remove(id) },
			s.setRecord(c, appendTimed(nil, kindExpiry, expiresAt, id), &next, 0)
	})
	return err
}

// leaveDelivery takes a pending delivery from where it waits, and its payload unless that is kept. It
// returns until when the job is kept.
func (s *Store) leaveDelivery(c *change, id job.ID, keepPayload bool) (int64, error) {
	var buf [64]byte
	if at, known := s.owed.get(id); known {
		c.dropPlace(job.Deliveries, at.entry.Lane, at.entry.Order)
		if at.payload && !keepPayload {
			c.remove(appendID(buf[:0], kindPayload, id))
		}
		return at.expiresAt, nil
	}
	now, err := s.snapshot(id)
	if err != nil {
		return 0, err
	}
	if now.Webhook.Phase() != job.WebhookPending {
		return 0, store.ErrStale
	}
	c.remove(appendID(buf[:0], kindWebhook, id))
	if !keepPayload {
		c.remove(appendID(buf[:0], kindPayload, id))
	}
	if now.Webhook.DueAt != 0 {
		c.drop(appendDue(buf[:0], now.Webhook.DueAt, byte(store.DueDelivery), id))
	} else {
		c.dropPlace(job.Deliveries, now.Job.WebhookLane(), now.Webhook.Order)
	}
	return now.State.ExpiresAt, nil
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
		c.durable = s.logs.strict // somebody has asked for it
		next := job.Webhook{State: job.WebhookPending}
		c.drop(appendTimed(nil, kindExpiry, now.State.ExpiresAt, id))
		err = s.setRecord(c, appendID(nil, kindWebhook, id), &next, 0)
		c.placeRecord()
		c.setPlace(job.Deliveries, lane, id)
		return nil, err
	})
	if err != nil {
		return job.Entry{}, err
	}
	return job.Entry{Lane: lane, Order: order, ID: id}, nil
}
