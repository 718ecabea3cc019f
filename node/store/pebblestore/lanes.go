package pebblestore

import (
	"context"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Lane is store.Lanes.Lane.
func (s *Store) Lane(
	ctx context.Context, line job.Line, lane job.Lane, behind job.Order, limit int,
) (entries []job.Entry, err error) {
	var reader laneReader
	err = s.scanLane(ctx, line, lane, behind, ^job.Order(0), func(it *pebble.Iterator) (bool, error) {
		if len(entries) >= limit {
			return false, nil
		}
		e, ok := reader.entry(it.Key(), it.Value())
		if !ok {
			_ = s.unreadable.note(it.Key(), errMalformed) // the others go on
			return true, nil
		}
		entries = append(entries, e)
		return len(entries) < limit, nil
	})
	return entries, err
}

// Ahead is store.Lanes.Ahead.
func (s *Store) Ahead(
	ctx context.Context, line job.Line, lane job.Lane, behind, before job.Order, limit int,
) (n int, err error) {
	if limit <= 0 || before <= behind {
		return 0, nil
	}
	err = s.scanLane(ctx, line, lane, behind, before, func(*pebble.Iterator) (bool, error) {
		n++
		return n < limit, nil
	})
	return n, err
}

// scanLane visits the places between two orders, both exclusive, until visit returns false. It seeks
// to the first: the tombstones of what has left the front of the lane are not walked over.
func (s *Store) scanLane(
	ctx context.Context, line job.Line, lane job.Lane, behind, before job.Order,
	visit func(*pebble.Iterator) (more bool, err error),
) (err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if behind == ^job.Order(0) {
		return nil
	}
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: appendPlace(nil, line, lane, behind+1),
		UpperBound: appendPlace(nil, line, lane, before),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if more, err := visit(it); !more || err != nil {
			return err
		}
	}
	return it.Error()
}

// Waiting is store.Lanes.Waiting.
func (s *Store) Waiting(ctx context.Context, line job.Line) iter.Seq2[job.Entry, error] {
	var reader laneReader
	return scan(ctx, s, []byte{kindLane, byte(line)}, func(key, value []byte) (job.Entry, error) {
		e, ok := reader.entry(key, value)
		if !ok {
			return e, s.unreadable.note(key, errMalformed)
		}
		return e, nil
	})
}

// scan iterates over what parse makes of the keys that begin with prefix, as they are at its start. What
// is store.ErrCorrupt to parse is left out; any other error ends it.
func scan[T any](
	ctx context.Context, s *Store, prefix []byte, parse func(key, value []byte) (T, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		leave, err := s.read(ctx)
		if err != nil {
			yield(none, err)
			return
		}
		defer leave()
		it, err := s.iterate(prefix)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = it.Close() }() // Error has told
		for ok := it.First(); ok; ok = it.Next() {
			item, err := parse(it.Key(), it.Value())
			if errors.Is(err, store.ErrCorrupt) {
				continue
			}
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err == nil && s.isClosing() {
				err = store.ErrClosed
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(none, err)
		}
	}
}
