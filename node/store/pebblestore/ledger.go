package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// ledger is what a store has of its ledger in memory.
type ledger struct {
	keep bool          // jobs that end are entered
	made atomic.Uint64 // entries since the store was opened
	// cutting is held while a batch is cut or taken off.
	cutting sync.Mutex
}

// enter puts a job that ends into the ledger. The entry's sequence is the order of the change.
func (s *Store) enter(c *change, f store.Finish) error {
	var buf [1 + orderLen]byte
	err := s.setRecord(c, appendSequence(buf[:0], 0), job.NewLedgerEntry(f.Job, f.Next, 0), 0)
	c.orders = append(c.orders, c.ops[len(c.ops)-1].mid-orderLen)
	return err
}

// Ledgered is store.Ledger.Ledgered.
func (s *Store) Ledgered() uint64 { return s.ledger.made.Load() }

// LedgerBatch is store.Ledger.LedgerBatch. It waits for the disk, so that whoever is told of a batch can be
// told of the same one again; the entries are then on disk too.
func (s *Store) LedgerBatch(ctx context.Context, limit int) ([]job.LedgerEntry, error) {
	s.ledger.cutting.Lock()
	defer s.ledger.cutting.Unlock()
	list, err := s.cutBatch(ctx)
	if err != nil || len(list) > 0 {
		return list, err
	}
	list, err = s.entries(ctx, math.MaxUint64, limit)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	c := s.newChange()
	c.durable = true
	c.set(metaKey(metaCut), binary.AppendUvarint(nil, uint64(list[len(list)-1].Sequence)))
	if _, err := s.commit(ctx, c); err != nil {
		return nil, err
	}
	return list, nil
}

// cutBatch returns the batch that was cut and not flushed yet; empty if there is none.
func (s *Store) cutBatch(ctx context.Context) ([]job.LedgerEntry, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	end, err := s.meta(metaCut)
	if errors.Is(err, store.ErrCorrupt) {
		return nil, nil // the batch is cut anew: its entries are told once more in another one
	}
	if err != nil || end == 0 {
		return nil, err
	}
	return s.entries(ctx, job.Order(end), math.MaxInt)
}

// entries returns the first entries up to a sequence, at most limit.
func (s *Store) entries(ctx context.Context, through job.Order, limit int) (list []job.LedgerEntry, err error) {
	all := scan(ctx, s, []byte{kindLedger}, func(key, value []byte) (e job.LedgerEntry, err error) {
		if !wellFormed(key) {
			return e, s.unreadable.note(key, errMalformed)
		}
		if _, err = s.codec.decode(value, &e); err != nil {
			return e, s.unreadable.note(key, err)
		}
		e.Sequence = job.Order(binary.BigEndian.Uint64(key[1:]))
		return e, nil
	})
	for e, err := range all {
		if err != nil {
			return nil, err
		}
		if e.Sequence > through || len(list) == limit {
			break
		}
		list = append(list, e)
	}
	return list, nil
}

// LedgerFlushed is store.Ledger.LedgerFlushed. Of a job that has expired nothing is left to be cleared.
func (s *Store) LedgerFlushed(ctx context.Context, last job.Order) error {
	s.ledger.cutting.Lock()
	defer s.ledger.cutting.Unlock()
	list, err := s.cutBatch(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 || list[len(list)-1].Sequence != last {
		return store.ErrStale
	}
	c := s.newChange()
	if err := s.takeOff(ctx, c, list); err != nil {
		return s.abandon(c, err)
	}
	_, err = s.commit(ctx, c)
	return err
}

func (s *Store) takeOff(ctx context.Context, c *change, batch []job.LedgerEntry) error {
	leave, err := s.read(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var buf [64]byte
	for _, e := range batch {
		c.drop(appendSequence(buf[:0], e.Sequence))
		err := s.get(appendID(buf[:0], kindJob, e.ID), func([]byte) error { return nil })
		switch {
		case err == nil, errors.Is(err, store.ErrCorrupt):
			c.set(appendID(buf[:0], kindFlushed, e.ID), nil)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	c.remove(metaKey(metaCut))
	return nil
}

// ClearFlushed is store.Ledger.ClearFlushed.
func (s *Store) ClearFlushed(ctx context.Context) (removed int, err error) {
	s.expiring.Lock()
	defer s.expiring.Unlock()
	from := []byte{kindFlushed} // each part begins behind the last one
	for {
		ids, err := s.flushedIDs(ctx, from, expireChunk)
		if err == nil && len(ids) == 0 && removed > 0 && s.logs.strict {
			err = s.Sync(ctx)
		}
		if err != nil || len(ids) == 0 {
			return removed, err
		}
		n, err := s.clearSome(ctx, ids)
		removed += n
		if err != nil {
			return removed, err
		}
		from = append(appendID(nil, kindFlushed, ids[len(ids)-1]), 0)
	}
}

// flushedIDs returns the first flushed jobs at or behind from.
func (s *Store) flushedIDs(ctx context.Context, from []byte, limit int) (ids []job.ID, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	it, err := s.iterate([]byte{kindFlushed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.SeekGE(from); ok && len(ids) < limit; ok = it.Next() {
		if s.readable(it.Key()) {
			ids = append(ids, keyID(it.Key()))
		}
	}
	return ids, it.Error()
}

// clearSome removes those of the jobs whose deliveries are settled, and returns how many there were.
func (s *Store) clearSome(ctx context.Context, ids []job.ID) (int, error) {
	c := s.newChange()
	settled, err := s.sortOut(ctx, c, ids)
	if err != nil {
		return 0, s.abandon(c, err)
	}
	if _, err := s.commit(ctx, c); err != nil {
		return 0, err
	}
	return s.expireSome(ctx, settled)
}

// sortOut returns which of the flushed jobs are settled, and takes those that are gone off the list. One
// that cannot be read stays.
func (s *Store) sortOut(ctx context.Context, c *change, ids []job.ID) (settled []expiredKey, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var buf [64]byte
	for _, id := range ids {
		var st job.State
		_, err := s.record(kindState, id, &st)
		if errors.Is(err, store.ErrNotFound) {
			c.remove(appendID(buf[:0], kindFlushed, id))
			continue
		}
		if err == nil {
			err = s.get(appendTimed(buf[:0], kindExpiry, st.ExpiresAt, id), func([]byte) error { return nil })
		}
		switch {
		case err == nil:
			settled = append(settled, expiredKey{ms: st.ExpiresAt, id: id})
		case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt):
			return nil, err
		}
	}
	return settled, nil
}
