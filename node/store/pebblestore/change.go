package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// change is one atomic step on its way to the disk. The goroutine that asks for it builds it, then
// hands it to the committer, which owns it until it is answered.
type change struct {
	ops []op
	buf bytes.Buffer // the keys and values of ops
	// orders is where in buf the new order goes, as eight bytes. If there are any, the committer gives
	// the change an order. A change of several jobs gets one for each: from each of the indices in steps
	// on, orders is about the next one.
	orders []int
	steps  []int
	order  job.Order // the first one
	// keys are the idempotency keys that the change takes.
	keys []job.KeyHash
	// durable wants the answer only when the change is on disk, not as soon as it is written.
	durable bool
	// visible runs in the committer as soon as the change is visible to readers; it may be nil.
	visible func()
	// made and then release run once, just before the answer, also when nobody waits for it any more: made
	// brings what is kept in memory in line, unless the change has failed; release gives up claims. Either may
	// be nil.
	made    func(order job.Order)
	release func()
	// queued is true while the change stands in the committer's queue, guarded by its mutex.
	queued   bool
	answered chan error // of one
}

// op is one write. Its key and value are parts of the change's buffer.
type op struct {
	kind     pebble.InternalKeyKind // Set, Delete or SingleDelete
	from     int                    // of the key
	mid, end int                    // of the value, which begins where the key ends
}

// newChange returns an empty change, which is answered when it is written.
func (s *Store) newChange() *change {
	c, ok := s.changes.Get().(*change)
	if !ok {
		c = &change{answered: make(chan error, 1)}
	}
	return c
}

// recycle takes back a change that nobody else knows any more.
func (s *Store) recycle(c *change) {
	if c.buf.Cap() > 64<<10 {
		return
	}
	c.buf.Reset()
	*c = change{ops: c.ops[:0], buf: c.buf, orders: c.orders[:0], steps: c.steps[:0], keys: c.keys[:0], answered: c.answered}
	s.changes.Put(c)
}

// answer ends the change. It must be called once.
func (c *change) answer(err error) {
	if c.made != nil && err == nil {
		c.made(c.order)
	}
	if c.release != nil {
		c.release()
	}
	c.answered <- err
}

func (c *change) add(kind pebble.InternalKeyKind, key, value []byte) {
	from := c.buf.Len()
	c.buf.Write(key)
	mid := c.buf.Len()
	c.buf.Write(value)
	c.ops = append(c.ops, op{kind: kind, from: from, mid: mid, end: c.buf.Len()})
}

func (c *change) set(key, value []byte) { c.add(pebble.InternalKeyKindSet, key, value) }

func (c *change) remove(key []byte) { c.add(pebble.InternalKeyKindDelete, key, nil) }

// drop deletes a key that is written once before each deletion. Such a pair costs nothing once both
// are in one memtable, which is what happens to the places of a job that is done quickly.
func (c *change) drop(key []byte) { c.add(pebble.InternalKeyKindSingleDelete, key, nil) }

// setPlace adds a new place in a lane.
func (c *change) setPlace(line job.Line, lane job.Lane, id job.ID) {
	var buf [128]byte
	c.set(appendPlace(buf[:0], line, lane, 0), id[:])
	c.orders = append(c.orders, c.ops[len(c.ops)-1].mid-orderLen)
}

func (c *change) dropPlace(line job.Line, lane job.Lane, order job.Order) {
	var buf [128]byte
	c.drop(appendPlace(buf[:0], line, lane, order))
}

// setRecord writes a record.
func (s *Store) setRecord(c *change, key []byte, v any, order job.Order) error {
	c.set(key, nil)
	err := s.codec.encode(&c.buf, v, order)
	c.ops[len(c.ops)-1].end = c.buf.Len()
	return err
}

// placeRecord makes the record just written carry the order that the committer gives.
func (c *change) placeRecord() { c.orders = append(c.orders, c.buf.Len()-orderLen) }

// step has what is placed from now on get the order after that of what was placed before.
func (c *change) step() { c.steps = append(c.steps, len(c.orders)) }

// place gives the change its orders, from the given one on, and returns the next that is free.
func (c *change) place(order job.Order) (next job.Order) {
	c.order = order
	steps := c.steps
	for i, at := range c.orders {
		for len(steps) > 0 && steps[0] == i {
			order, steps = order+1, steps[1:]
		}
		binary.BigEndian.PutUint64(c.buf.Bytes()[at:], uint64(order))
	}
	return order + 1
}

// commit hands the change over and waits for its answer. It owns c in every case.
func (s *Store) commit(ctx context.Context, c *change) (job.Order, error) {
	if err := s.committer.submit(ctx, c); err != nil {
		return 0, s.abandon(c, err)
	}
	select {
	case err := <-c.answered:
		order := c.order
		s.recycle(c)
		return order, err
	case <-ctx.Done():
	}
	err := s.waited(context.Cause(ctx))
	if s.committer.withdraw(c) {
		return 0, s.abandon(c, err)
	}
	return 0, err
}

// waited says of a wait that ended without success whether it was for room on the disk.
func (s *Store) waited(err error) error {
	if s.volume.full() && !errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// abandon gives up a change that was not handed over.
func (s *Store) abandon(c *change, err error) error {
	c.answer(err)
	return err
}
