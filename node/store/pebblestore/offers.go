package pebblestore

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	kindOffer byte = 'h' // id -> to whom the job is offered
	kindLeft  byte = 'b' // day, id -> the moves of a job that was handed over
)

// offer is the record of a job that a peer may have.
type offer struct {
	Peer  string `cbor:"1,keyasint"`
	Moves int    `cbor:"2,keyasint"` // of the copy that the peer may have
}

// offers are the jobs that are offered to a peer, exactly as on disk.
type offers struct {
	// left is set once any job has left that is remembered: most stores have none, and need not look.
	left atomic.Bool

	mu   sync.RWMutex // guards open
	open map[job.ID]offer
}

func newOffers() *offers { return &offers{open: make(map[job.ID]offer)} }

func (o *offers) get(id job.ID) (offer, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	got, ok := o.open[id]
	return got, ok
}

func (o *offers) set(id job.ID, to offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[id] = to
}

func (o *offers) remove(ids ...job.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		delete(o.open, id)
	}
}

func (o *offers) all() map[job.ID]offer {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return maps.Clone(o.open)
}

// loadLeft finds out whether any job has left that is remembered.
func (s *Store) loadLeft() error {
	it, err := s.iterate([]byte{kindLeft})
	if err != nil {
		return err
	}
	s.offers.left.Store(it.First())
	return errors.Join(it.Error(), it.Close())
}

// loadOffers reads what the last process had offered.
func (s *Store) loadOffers() (err error) {
	it, err := s.iterate([]byte{kindOffer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if !s.readable(it.Key()) {
			continue
		}
		var rec offer
		if _, err := s.codec.decode(it.Value(), &rec); err != nil {
			_ = s.unreadable.note(it.Key(), err) // it stays out of its place
			continue
		}
		s.offers.set(keyID(it.Key()), rec)
	}
	return it.Error()
}

// appendLeft is the key by which a job is remembered that has left on a day, counted from 1970.
func appendLeft(b []byte, day int64, id job.ID) []byte {
	return append(appendDay(b, day), id[:]...)
}

func appendDay(b []byte, day int64) []byte {
	return append(b, kindLeft, byte(day>>24), byte(day>>16), byte(day>>8), byte(day))
}

const (
	dayMS   = 24 * 60 * 60 * 1000
	dayLen  = 4
	leftLen = 1 + dayLen + idLen
	// leftDays is how many days back a job may have left that is remembered.
	leftDays = int64(store.LeftFor/1e6) / dayMS
)

// hasLeft returns the moves of the newest copy of a job that was handed on lately; 0 if there is none.
func (s *Store) hasLeft(today int64, id job.ID) (moves int, err error) {
	if !s.offers.left.Load() {
		return 0, nil
	}
	var buf [leftLen]byte
	for day := today - leftDays; day <= today; day++ {
		err := s.get(appendLeft(buf[:0], day, id), func(value []byte) error {
			var m int
			_, err := s.codec.decode(value, &m)
			moves = max(moves, m)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
	}
	return moves, nil
}
