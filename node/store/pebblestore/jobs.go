package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Insert is store.Jobs.Insert.
func (s *Store) Insert(ctx context.Context, j *job.Job, d store.Durability) (store.Inserted, error) {
	keyed := j.RedriveOf.IsZero()
	hash := j.Request.Key().Hash()
	if keyed {
		if err := s.keys.take(ctx, hash); err != nil {
			return store.Inserted{}, s.waited(err)
		}
		holder, found, err := s.holder(ctx, hash)
		if found || err != nil {
			s.keys.release(hash)
			if err != nil {
				return store.Inserted{}, err
			}
			got := s.promise(d)
			if got == store.Sync && !s.logs.strict { // the holder may have asked for less
				err = s.Sync(ctx)
			}
			return store.Inserted{Holder: &holder, Durability: got}, err
		}
	}
	entry := job.Entry{Lane: j.Lane(), ID: j.ID}
	c, err := s.insertion(j, entry, hash, keyed)
	if err != nil {
		return store.Inserted{}, err
	}
	got := s.promise(d)
	c.durable = got == store.Sync
	entry.Order, err = s.commit(ctx, c)
	s.reclaimer.inserted.Store(true)
	return store.Inserted{Entry: entry, Durability: got}, err
}

// promise is what who asks for d gets.
func (s *Store) promise(d store.Durability) store.Durability {
	if s.logs.strict || d == store.Sync {
		return store.Sync
	}
	return store.Flush
}

// insertion builds the change that adds a job. It owns the claim on the key.
func (s *Store) insertion(j *job.Job, entry job.Entry, hash job.KeyHash, keyed bool) (*change, error) {
	c := s.newChange()
	// Whatever moves the job afterwards is a later change, so it forgets the place later than this.
	c.visible = func() {
		at := place{entry: entry}
		at.entry.Order = c.order
		s.waiting.put(at)
	}
	if keyed {
		c.release = func() { s.keys.release(hash) }
	}
	if s.volume.full() {
		return nil, s.abandon(c, store.ErrFull)
	}
	var buf [128]byte
	if err := s.setRecord(c, appendID(buf[:0], kindJob, j.ID), j, 0); err != nil {
		return nil, s.abandon(c, err)
	}
	c.placeRecord()
	c.set(appendUser(buf[:0], j.Request.UserID, j.ID), nil)
	c.set(appendTimed(buf[:0], kindDeadline, j.Deadline, j.ID), nil)
	c.setPlace(job.Calls, entry.Lane, j.ID)
	if keyed {
		c.setHolder(j, hash)
	}
	return c, nil
}

// setHolder gives a job its idempotency key.
func (c *change) setHolder(j *job.Job, hash job.KeyHash) {
	payload := j.Request.Payload()
	var holder [idLen + len(payload)]byte
	copy(holder[copy(holder[:], j.ID[:]):], payload[:])
	var buf [64]byte
	c.set(appendKey(buf[:0], hash), holder[:])
	c.keys = append(c.keys, hash)
}

// Find is store.Jobs.Find. A job that is being added is found once it is durable.
func (s *Store) Find(ctx context.Context, key job.KeyHash) (store.Holder, error) {
	if err := s.keys.free(ctx, key); err != nil {
		return store.Holder{}, s.waited(err)
	}
	holder, found, err := s.holder(ctx, key)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return holder, err
}

// holder reads who has a key.
func (s *Store) holder(ctx context.Context, key job.KeyHash) (store.Holder, bool, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return store.Holder{}, false, err
	}
	defer leave()
	if !s.filter.mayHave(key) {
		return store.Holder{}, false, nil
	}
	var buf [64]byte
	var h store.Holder
	err = s.get(appendKey(buf[:0], key), func(value []byte) error {
		if len(value) != len(h.ID)+len(h.Payload) {
			return fmt.Errorf("%w: key index entry of %d bytes", errMalformed, len(value))
		}
		h.ID, h.Payload = job.ID(value[:len(h.ID)]), job.PayloadHash(value[len(h.ID):])
		return nil
	})
	if err == nil {
		_, _, err = s.current(h.ID)
	}
	if err == nil {
		err = s.get(appendID(buf[:0], kindJob, h.ID), func([]byte) error { return nil })
	}
	if errors.Is(err, store.ErrNotFound) {
		return store.Holder{}, false, nil
	}
	if err == nil {
		// On a store that has failed the holder may be one that never got to the disk.
		err = s.volume.failure()
	}
	return h, err == nil, err
}

// Get is store.Jobs.Get.
func (s *Store) Get(ctx context.Context, id job.ID) (job.Snapshot, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return job.Snapshot{}, err
	}
	defer leave()
	return s.snapshot(id)
}

// snapshot reads the open attempt first and the job last. An attempt leaves the memory after its outcome
// is stored, so one that has just gone is in the state that is read next; and a job that is still there
// had not been removed when its state was read.
func (s *Store) snapshot(id job.ID) (job.Snapshot, error) {
	open, _ := s.attempts.get(id)
	state, webhook, err := s.current(id)
	if err != nil {
		return job.Snapshot{}, err
	}
	j, accepted, err := s.getJob(id)
	if err != nil {
		return job.Snapshot{}, err
	}
	if state.Order == 0 && state.DueAt == 0 && !state.Phase().Ended() {
		state.Order = accepted
	}
	if open.number > state.Tried && !state.Phase().Ended() {
		state.Tried, state.DueAt, state.Order, state.Direct = open.number, 0, open.place.Order, open.direct
	}
	return job.Snapshot{Job: j, State: state, Webhook: webhook}, nil
}

// current reads the state and the delivery of a job that has not expired. The state comes first: once
// it says that the job ended it does not change, so the delivery fits it. A job without a record of its
// state has the zero state, also if there is no such job.
func (s *Store) current(id job.ID) (state job.State, webhook job.Webhook, err error) {
	order, err := s.record(kindState, id, &state)
	if errors.Is(err, store.ErrNotFound) {
		return job.State{}, job.Webhook{}, nil
	}
	if err != nil || !state.Phase().Ended() {
		state.Order = order
		return state, job.Webhook{}, err
	}
	webhook, err = s.delivery(id, state, order)
	if webhook.State.Settled() && state.ExpiresAt <= time.Now().UnixMilli() {
		return state, webhook, store.ErrNotFound
	}
	return state, webhook, err
}

// delivery reads the delivery of a job that has ended in this state; first is its place if it was never
// tried. An unsettled one is looked for first, as it goes away only when it is settled, and once more if
// neither is there, as it may have been owed again in between.
func (s *Store) delivery(id job.ID, ended job.State, first job.Order) (w job.Webhook, err error) {
	var keys [2][64]byte
	unsettled := appendID(keys[0][:0], kindWebhook, id)
	settled := appendTimed(keys[1][:0], kindExpiry, ended.ExpiresAt, id)
	var order job.Order
	for _, key := range [][]byte{unsettled, settled, unsettled} {
		err = s.get(key, func(value []byte) (err error) {
			order, err = s.codec.decode(value, &w)
			return err
		})
		if !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		// Owed since the end and never tried: Finish saves that record.
		return job.Webhook{State: job.WebhookPending, Order: first}, nil
	}
	w.Order = order
	return w, err
}

func (s *Store) getJob(id job.ID) (*job.Job, job.Order, error) {
	j := new(job.Job)
	order, err := s.record(kindJob, id, j)
	if err == nil && j.ID != id {
		err = s.unreadable.note(appendID(nil, kindJob, id), fmt.Errorf("%w: it names job %s", errMalformed, j.ID))
	}
	if err != nil {
		return nil, 0, err
	}
	return j, order, nil
}

// record reads one record; store.ErrNotFound if there is none.
func (s *Store) record(kind byte, id job.ID, v any) (order job.Order, err error) {
	var buf [1 + idLen]byte
	err = s.get(appendID(buf[:0], kind, id), func(value []byte) (err error) {
		order, err = s.codec.decode(value, v)
		return err
	})
	return order, err
}

// get calls use with the value of key, which is valid until use returns. It returns store.ErrCorrupt if the
// value cannot be read, or use finds it malformed.
func (s *Store) get(key []byte, use func(value []byte) error) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.ErrNotFound
	}
	if err == nil {
		err = errors.Join(use(value), closer.Close())
	}
	if pebble.IsCorruptionError(err) || errors.Is(err, errMalformed) {
		return s.unreadable.note(key, err)
	}
	return err
}

// Payload is store.Jobs.Payload.
func (s *Store) Payload(ctx context.Context, id job.ID) (body []byte, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var buf [1 + idLen]byte
	err = s.get(appendID(buf[:0], kindPayload, id), func(value []byte) error {
		body = bytes.Clone(value)
		return nil
	})
	if !errors.Is(err, store.ErrNotFound) {
		return body, err
	}
	snapshot, err := s.snapshot(id)
	if err != nil || snapshot.State.Result == nil {
		return nil, err
	}
	return snapshot.State.Result.Body, nil
}
