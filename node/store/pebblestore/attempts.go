package pebblestore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// attempts are the open attempts, as on disk. A transition looks here whether it speaks for the open
// one, without a read.
type attempts struct {
	mu   sync.RWMutex // guards open
	open map[job.ID]openAttempt
}

type openAttempt struct {
	number    int
	startedAt int64 // Unix ms
	direct    bool
	place     job.Entry
	// interrupted: the process that began it is gone.
	interrupted bool
}

func newAttempts() *attempts { return &attempts{open: make(map[job.ID]openAttempt)} }

func (a *attempts) get(id job.ID) (openAttempt, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	o, ok := a.open[id]
	return o, ok
}

func (a *attempts) set(o openAttempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[o.place.ID] = o
}

func (a *attempts) remove(id job.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

func (a *attempts) interrupted() []store.Interrupted {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var list []store.Interrupted
	for _, o := range a.open {
		if o.interrupted {
			list = append(list, store.Interrupted{Entry: o.place, Attempt: o.number, StartedAt: o.startedAt})
		}
	}
	return list
}

// loadAttempts reads the attempts that the last process left open.
func (s *Store) loadAttempts() (err error) {
	it, err := s.iterate([]byte{kindAttempt})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if !s.readable(it.Key()) {
			continue
		}
		if err := s.loadAttempt(it.Key(), it.Value()); err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
	}
	return it.Error()
}

func (s *Store) loadAttempt(key, value []byte) error {
	id := keyID(key)
	var rec attempt
	order, err := s.codec.decode(value, &rec)
	if err != nil {
		return s.unreadable.note(key, err)
	}
	j, _, err := s.getJob(id)
	if errors.Is(err, store.ErrNotFound) {
		return s.unreadable.note(key, fmt.Errorf("%w: there is no such job", errMalformed))
	}
	if err != nil {
		return fmt.Errorf("open attempt of job %s: %w", id, err)
	}
	s.attempts.set(openAttempt{
		number: rec.Number, startedAt: rec.StartedAt, direct: rec.Direct, interrupted: true,
		place: job.Entry{Lane: j.Lane(), Order: order, ID: id},
	})
	return nil
}

// iterate returns an iterator over the keys that begin with prefix.
func (s *Store) iterate(prefix []byte) (*pebble.Iterator, error) {
	return s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
}
