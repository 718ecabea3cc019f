package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	mergeChanges = 512 // in one batch
	// inFlight is how many batches may wait for the disk. More would only hide a slow one.
	inFlight = 32
	// orderStep is how many orders are reserved at once, so that an order is not given twice, also
	// when all lanes are empty at the next start.
	orderStep = 1 << 16
)

// committer applies all changes, one batch after another. Two goroutines own the work: run merges what
// waits, gives orders and applies; acknowledge waits until a batch is written, in the same order, and
// answers those whom that is enough for; the others wait for the logs. So orders become visible in
// order, and a slow disk makes batches larger, not more.
type committer struct {
	db      *pebble.DB
	logs    *logs
	volume  *volume
	keys    *keyFilter
	metrics *metrics
	// mergeBytes bounds a batch of several changes, so that it does not fill a memtable.
	mergeBytes int

	// mu guards the queue, so that a change is either taken by run or withdrawn by its caller.
	mu     sync.Mutex
	queue  []*change
	closed bool
	wake   chan struct{} // of one: the queue is not empty, or closed

	// next, reserved, writes and sorted are owned by run: the next order to give, the highest that is reserved on
	// disk, and what merge works with.
	next, reserved job.Order
	writes         []write
	sorted         []rank
	// rescue runs in run after wantRescue; see Store.rescue.
	rescue func()
	wanted atomic.Bool

	applied chan group
	// since is when the batch that acknowledge waits for was applied, in Unix ns; 0 if none.
	since atomic.Int64
	done  sync.WaitGroup
}

// group is what one batch carries.
type group struct {
	batch   *pebble.Batch
	changes []*change
	applied time.Time
}

func (c *committer) start() {
	c.wake = make(chan struct{}, 1)
	c.applied = make(chan group, inFlight)
	c.done.Go(c.run)
	c.done.Go(c.acknowledge)
}

// stop answers everything that was submitted and returns when that is done.
func (c *committer) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.signal()
	c.done.Wait()
}

func (c *committer) signal() { signal(c.wake) }

func (c *committer) submit(ctx context.Context, ch *change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.volume.failure(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return store.ErrClosed
	}
	ch.queued = true
	c.queue = append(c.queue, ch)
	first := len(c.queue) == 1
	c.mu.Unlock()
	if first {
		c.signal()
	}
	return nil
}

// withdraw takes a change back that was not applied yet.
func (c *committer) withdraw(ch *change) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ch.queued {
		return false
	}
	for i, other := range c.queue {
		if other == ch {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			ch.queued = false
			return true
		}
	}
	return false
}

// take returns the next changes for one batch; more says that others are left, open that more will
// come.
func (c *committer) take(buf []*change) (taken []*change, more, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.queue) && n < mergeChanges && size < c.mergeBytes {
		c.queue[n].queued = false
		size += c.queue[n].buf.Len()
		n++
	}
	taken = append(buf[:0], c.queue[:n]...)
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	return taken, rest > 0, !c.closed
}

func (c *committer) run() {
	defer close(c.applied)
	var taken []*change
	for {
		more, open := false, false
		// Whoever is about to submit does so first: one batch of many is cheaper than many of one.
		runtime.Gosched()
		taken, more, open = c.take(taken)
		if len(taken) > 0 {
			c.apply(taken)
		}
		if c.wanted.Swap(false) {
			c.rescue()
		}
		if more {
			continue
		}
		if !open {
			return
		}
		<-c.wake
	}
}

func (c *committer) wantRescue() {
	c.wanted.Store(true)
	c.signal()
}

// apply makes one batch of the changes and applies it.
func (c *committer) apply(changes []*change) {
	batch, err := c.merge(changes)
	if err == nil {
		err = c.volume.failure()
	}
	if err == nil {
		err = c.db.ApplyNoSyncWait(batch, pebble.Sync)
	}
	if err != nil {
		// Nothing was applied: the batch is malformed, or the store has failed.
		for _, ch := range changes {
			ch.answer(err)
		}
		return
	}
	c.metrics.committed(len(changes))
	g := group{batch: batch, changes: slices.Clone(changes), applied: time.Now()}
	for _, ch := range changes {
		if ch.visible != nil {
			ch.visible()
		}
	}
	c.applied <- g
}

// merge gives orders and writes the changes into one batch, sorted by key: neighbours are cheaper to put
// into the memtable, and that is most of what a change costs. No two changes of a batch write one key,
// because whoever changes a job or takes an idempotency key has a claim on it.
func (c *committer) merge(changes []*change) (*pebble.Batch, error) {
	c.writes = c.writes[:0]
	size := 0
	for _, ch := range changes {
		if len(ch.orders) > 0 {
			c.next = ch.place(c.next)
		}
		for _, key := range ch.keys {
			c.keys.add(key)
		}
		size += ch.buf.Len()
		buf := ch.buf.Bytes()
		for _, o := range ch.ops {
			c.writes = append(c.writes, write{kind: o.kind, key: buf[o.from:o.mid], value: buf[o.mid:o.end]})
		}
	}
	batch := c.db.NewBatchWithSize(size + 16*len(c.writes) + 64)
	for _, r := range c.sort() {
		if err := c.writes[r.at].to(batch); err != nil {
			return nil, err
		}
	}
	clear(c.writes)
	if c.next > c.reserved+1 {
		c.reserved = c.next + orderStep
		return batch, setMeta(batch, metaOrders, uint64(c.reserved))
	}
	if batch.Empty() { // wanted by Sync: an empty batch would not wait for the disk
		err := batch.LogData(nil, nil)
		return batch, err
	}
	return batch, nil
}

// rank is what a write is sorted by: how its key begins, as a number, which mostly tells it apart from all others.
type rank struct {
	start uint64
	at    int // among the writes
}

// sort returns the writes in the order of their keys.
func (c *committer) sort() []rank {
	c.sorted = c.sorted[:0]
	for i, w := range c.writes {
		var start [8]byte
		copy(start[:], w.key)
		c.sorted = append(c.sorted, rank{start: binary.BigEndian.Uint64(start[:]), at: i})
	}
	slices.SortFunc(c.sorted, func(a, b rank) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return bytes.Compare(c.writes[a.at].key, c.writes[b.at].key)
	})
	return c.sorted
}

// write is one write of a batch.
type write struct {
	kind       pebble.InternalKeyKind
	key, value []byte
}

func (w write) to(batch *pebble.Batch) error {
	switch w.kind {
	case pebble.InternalKeyKindDelete:
		return batch.Delete(w.key, nil)
	case pebble.InternalKeyKindSingleDelete:
		return batch.SingleDelete(w.key, nil)
	default:
		return batch.Set(w.key, w.value, nil)
	}
}

// acknowledge passes on the changes of each batch when it is written.
func (c *committer) acknowledge() {
	for g := range c.applied {
		c.since.Store(g.applied.UnixNano())
		err := g.batch.SyncWait()
		// A volume that has failed tells Pebble that all is well; see volume.
		if failure := c.volume.failure(); failure != nil {
			err = failure
		}
		c.since.Store(0)
		c.pass(g.changes, err)
		if err == nil {
			err = g.batch.Close()
		}
		if err != nil {
			c.volume.fail(err)
		}
	}
}

// pass answers the changes that have failed or need no more than to be written. It reuses the slice for
// the others.
func (c *committer) pass(changes []*change, err error) {
	left := changes[:0]
	for _, ch := range changes {
		if err == nil && ch.durable {
			left = append(left, ch)
			continue
		}
		ch.answer(err)
	}
	c.logs.await(left)
}

// lag is how long the oldest applied batch has been waiting to be written.
func (c *committer) lag(now time.Time) time.Duration {
	since := c.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, since)))
}
