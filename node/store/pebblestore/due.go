package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Due is store.Lanes.Due.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]store.Due, time.Time, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer leave()
	// One more of each tells when the next is due.
	retries, err := s.first(kindDue, limit+1, now, s.parseRetry)
	if err != nil {
		return nil, time.Time{}, err
	}
	deadlines, err := s.first(kindDeadline, limit+1, now, s.parseDeadline)
	if err != nil {
		return nil, time.Time{}, err
	}
	all := append(retries, deadlines...)
	slices.SortStableFunc(all, func(a, b store.Due) int { return int(min(max(a.At-b.At, -1), 1)) })
	n := 0
	for n < min(limit, len(all)) && all[n].At <= now.UnixMilli() {
		n++
	}
	var next time.Time // the zero time if nothing else is due ever
	if n < len(all) {
		next = time.UnixMilli(all[n].At)
	}
	return all[:n:n], next, nil
}

// first returns the first of a kind that are due, as parse reads them, and of the first that is not due
// only the time; at most limit. Those that parse does not want are passed over, as are those of jobs that
// are known to be unreadable: they would come up again and again.
func (s *Store) first(
	kind byte, limit int, now time.Time, parse func(key, value []byte) (d store.Due, wanted bool, err error),
) (found []store.Due, err error) {
	horizon := binary.BigEndian.AppendUint64([]byte{kind}, uint64(max(now.Add(store.DueHorizon).UnixMilli(), 0)))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: horizon})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && len(found) < limit; ok = it.Next() {
		if !s.readable(it.Key()) || s.unreadable.stops(keyID(it.Key())) {
			continue
		}
		if at := keyMS(it.Key()); at > now.UnixMilli() {
			return append(found, store.Due{At: at}), nil
		}
		d, wanted, err := parse(it.Key(), it.Value())
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return nil, err
		}
		if wanted && err == nil {
			found = append(found, d)
		}
	}
	return found, it.Error()
}

func (s *Store) parseRetry(key, value []byte) (store.Due, bool, error) {
	var reader laneReader
	d, ok := reader.due(key, value)
	if !ok {
		return d, false, s.unreadable.note(key, errMalformed)
	}
	return d, true, nil
}

// due reads a retry from its key and value.
func (r *laneReader) due(key, value []byte) (store.Due, bool) {
	lane, ok := r.lane(value)
	if !ok || !wellFormed(key) {
		return store.Due{}, false
	}
	kind := store.DueKind(key[1+timeLen])
	return store.Due{At: keyMS(key), Kind: kind, ID: keyID(key), Lane: lane}, kind == store.DueCall || kind == store.DueDelivery
}

// parseDeadline reads a deadline, whose lane stands in the job. That of a job which is being sent is
// not wanted: its attempt decides.
func (s *Store) parseDeadline(key, _ []byte) (store.Due, bool, error) {
	d := store.Due{At: keyMS(key), Kind: store.DueDeadline, ID: keyID(key)}
	if _, open := s.attempts.get(d.ID); open {
		return d, false, nil
	}
	j, _, err := s.getJob(d.ID)
	if errors.Is(err, store.ErrNotFound) {
		return d, false, nil // gone since the key was read
	}
	if err != nil {
		return d, false, fmt.Errorf("job %s, which has a deadline: %w", d.ID, err)
	}
	d.Lane = j.Lane()
	return d, true, nil
}

// Pending is store.Lanes.Pending.
func (s *Store) Pending(ctx context.Context) iter.Seq2[store.Due, error] {
	var reader laneReader
	return scan(ctx, s, []byte{kindDue}, func(key, value []byte) (store.Due, error) {
		d, ok := reader.due(key, value)
		if !ok {
			return d, s.unreadable.note(key, errMalformed)
		}
		return d, nil
	})
}

// Requeue is store.Lanes.Requeue.
func (s *Store) Requeue(ctx context.Context, d store.Due) (job.Entry, error) {
	line := job.Calls
	if d.Kind == store.DueDelivery {
		line = job.Deliveries
	}
	order, err := s.transition(ctx, d.ID, func(c *change) (func(job.Order), error) {
		var buf [64]byte
		key := appendDue(buf[:0], d.At, byte(d.Kind), d.ID)
		err := s.get(key, func([]byte) error { return nil })
		if errors.Is(err, store.ErrNotFound) {
			return nil, store.ErrStale
		}
		if err != nil {
			return nil, err
		}
		c.drop(key)
		err = s.undue(c, d)
		if errors.Is(err, store.ErrNotFound) {
			err = s.unreadable.note(key, fmt.Errorf("%w: its record is gone", errMalformed))
		}
		c.setPlace(line, d.Lane, d.ID)
		return nil, err
	})
	if err != nil {
		return job.Entry{}, err
	}
	return job.Entry{Lane: d.Lane, Order: order, ID: d.ID}, nil
}

// undue rewrites the record of what was due so that it stands in a lane.
func (s *Store) undue(c *change, d store.Due) error {
	defer c.placeRecord()
	if d.Kind == store.DueDelivery {
		var w job.Webhook
		_, err := s.record(kindWebhook, d.ID, &w)
		w.DueAt = 0
		return errors.Join(err, s.setRecord(c, appendID(nil, kindWebhook, d.ID), w, 0))
	}
	var st job.State
	_, err := s.record(kindState, d.ID, &st)
	st.DueAt = 0
	return errors.Join(err, s.setRecord(c, appendID(nil, kindState, d.ID), st, 0))
}
