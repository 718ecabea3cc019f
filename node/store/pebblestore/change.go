package pebblestore

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// change is one atomic step on its way to the disk. The goroutine that asks for it builds it, then
// hands it to the committer, which owns it until it is answered.
type change struct {
	batch *pebble.Batch
	// orders is where in the batch's bytes the new order goes, as eight bytes. If there are any, the
	// committer gives the change an order.
	orders []int
	order  job.Order
	// key is the idempotency key that the change takes; nil if none.
	key *job.KeyHash
	// early lets the change be answered when it is visible, before it is durable.
	early bool
	// visible runs in the committer as soon as the change is visible to readers; it may be nil.
	visible func()
	// settle runs once, just before the answer, whatever the answer is, also when nobody waits for it
	// any more. It gives up claims and brings what is kept in memory in line; it may be nil.
	settle func(order job.Order, err error)
	// queued is true while the change stands in the committer's queue, guarded by its mutex.
	queued   bool
	answered chan error // of one
}

func (s *Store) newChange() *change {
	return &change{batch: s.db.NewBatch(), answered: make(chan error, 1)}
}

// answer ends the change. It must be called once.
func (c *change) answer(err error) {
	if c.settle != nil {
		c.settle(c.order, err)
	}
	c.answered <- err
}

// The errors of a batch in memory mean that a change was built wrongly; the first is kept and
// refuses the change.

func (c *change) set(key, value []byte) error { return c.batch.Set(key, value, nil) }

// setPlace adds a new place in a lane.
func (c *change) setPlace(line job.Line, lane job.Lane, id job.ID) error {
	var buf [128]byte
	if err := c.set(appendPlace(buf[:0], line, lane, 0), id[:]); err != nil {
		return err
	}
	// The key ends before the value and its length, which is one byte.
	c.orders = append(c.orders, len(c.batch.Repr())-idLen-1-orderLen)
	return nil
}

// setRecord writes a record that gets the order of the change's new place if fresh, else order.
func (s *Store) setRecord(c *change, kind byte, id job.ID, v any, order job.Order) error {
	var buf [1 + idLen]byte
	var failed error
	err := s.codec.encode(v, order, func(record []byte) { failed = c.set(appendID(buf[:0], kind, id), record) })
	if err != nil {
		return err
	}
	return failed
}

// placeRecord makes the record just written carry the order that the committer gives.
func (c *change) placeRecord() { c.orders = append(c.orders, len(c.batch.Repr())-orderLen) }

// drop deletes a key that is written once before each deletion. Such a pair costs nothing once both
// are in one memtable, which is what happens to the places of a job that is done quickly.
func (c *change) drop(key []byte) error { return c.batch.SingleDelete(key, nil) }

func (c *change) dropPlace(line job.Line, lane job.Lane, order job.Order) error {
	var buf [128]byte
	return c.drop(appendPlace(buf[:0], line, lane, order))
}

// commit hands the change over and waits for its answer. It owns c in every case.
func (s *Store) commit(ctx context.Context, c *change) (job.Order, error) {
	if err := s.committer.submit(ctx, c); err != nil {
		c.answer(err)
		return 0, err
	}
	select {
	case err := <-c.answered:
		return c.order, err
	case <-ctx.Done():
	}
	if s.committer.withdraw(c) {
		err := context.Cause(ctx)
		if s.volume.full() {
			err = store.ErrFull
		}
		c.answer(err)
		return 0, err
	}
	if s.volume.full() {
		return 0, fmt.Errorf("%w: %w", store.ErrFull, context.Cause(ctx))
	}
	return 0, context.Cause(ctx)
}

// abandon gives up a change that could not be built.
func (s *Store) abandon(c *change, err error) error {
	c.answer(err)
	return err
}
