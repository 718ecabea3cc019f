package pebblestore

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Unfinished is store.HandOff.Unfinished.
func (s *Store) Unfinished(ctx context.Context) iter.Seq2[store.Handed, error] {
	return func(yield func(store.Handed, error) bool) {
		for id, err := range s.unfinishedIDs(ctx) {
			var h store.Handed
			if err == nil {
				h, err = s.handed(ctx, id)
			}
			_, begun := s.attempts.get(id)
			if store.MovedOn(err) || err == nil && begun {
				continue
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// unfinishedIDs iterates over all places where work stands.
func (s *Store) unfinishedIDs(ctx context.Context) iter.Seq2[job.ID, error] {
	return func(yield func(job.ID, error) bool) {
		for _, line := range []job.Line{job.Calls, job.Deliveries} {
			for e, err := range s.Waiting(ctx, line) {
				if !yield(e.ID, err) {
					return
				}
			}
		}
		for d, err := range s.Pending(ctx) {
			if !yield(d.ID, err) {
				return
			}
		}
	}
}

// handed reads a job as its next holder is to have it.
func (s *Store) handed(ctx context.Context, id job.ID) (store.Handed, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return store.Handed{}, err
	}
	defer leave()
	now, err := s.snapshot(id)
	if err != nil {
		return store.Handed{}, err
	}
	var whole []byte
	if now.State.Phase().Ended() {
		var buf [1 + idLen]byte
		err = s.get(appendID(buf[:0], kindPayload, id), func(value []byte) error {
			whole = bytes.Clone(value)
			return nil
		})
	}
	return store.NewHanded(now, whole), ignoreNotFound(err)
}

// Offers is store.HandOff.Offers.
func (s *Store) Offers(ctx context.Context) iter.Seq2[store.Offered, error] {
	return func(yield func(store.Offered, error) bool) {
		leave, err := s.read(ctx)
		if err != nil {
			yield(store.Offered{}, err)
			return
		}
		leave()
		for id, to := range s.offers.all() {
			h, err := s.handed(ctx, id)
			if store.MovedOn(err) {
				continue
			}
			if !yield(store.Offered{Peer: to.Peer, Handed: h}, err) || err != nil {
				return
			}
		}
	}
}

// Offer is store.HandOff.Offer.
func (s *Store) Offer(ctx context.Context, peer string, work []store.Handed) ([]store.Handed, error) {
	var taken []store.Handed // of the committer, too, when ctx ends before the answer
	err := s.transitMany(ctx, idsOf(work), func(c *change) (func(), error) {
		c.durable = true
		seen := make(map[job.ID]bool, len(work))
		for _, h := range work {
			ok, err := s.offerOne(c, peer, h, seen)
			if err != nil {
				return nil, err
			}
			if ok {
				taken = append(taken, h)
				seen[h.Job.ID] = true
			}
		}
		return func() {
			for _, h := range taken {
				s.waiting.remove(h.Job.ID)
				s.owed.remove(h.Job.ID)
				s.offers.set(h.Job.ID, offer{Peer: peer, Moves: h.Job.Moves})
			}
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// offerOne takes a job from where it stands, if it is still there: then nothing has happened to it.
func (s *Store) offerOne(c *change, peer string, h store.Handed, seen map[job.ID]bool) (ok bool, err error) {
	id := h.Job.ID
	_, begun := s.attempts.get(id)
	_, offered := s.offers.get(id)
	if begun || offered || seen[id] {
		return false, nil
	}
	var buf [128]byte
	key := appendStanding(buf[:0], h)
	if err := s.get(key, func([]byte) error { return nil }); err != nil {
		return false, ignoreNotFound(err)
	}
	c.drop(key)
	if h.Line() == job.Calls {
		c.drop(appendTimed(buf[:0], kindDeadline, h.Job.Deadline, id))
	}
	return true, s.setRecord(c, appendID(buf[:0], kindOffer, id), offer{Peer: peer, Moves: h.Job.Moves}, 0)
}

// appendStanding is the key of the place where work stands.
func appendStanding(b []byte, h store.Handed) []byte {
	if at := h.DueAt(); at != 0 {
		return appendDue(b, at, byte(dueKind(h.Line())), h.Job.ID)
	}
	e := h.Place()
	return appendPlace(b, h.Line(), e.Lane, e.Order)
}

func dueKind(l job.Line) store.DueKind {
	if l == job.Deliveries {
		return store.DueDelivery
	}
	return store.DueCall
}

// Keep is store.HandOff.Keep.
func (s *Store) Keep(ctx context.Context, peer string, work []store.Handed) ([]store.Handed, error) {
	back := make(map[job.ID]bool, len(work)) // by this call
	err := s.endOffers(ctx, peer, work, func(c *change, h store.Handed) error {
		id := h.Job.ID
		back[id] = true
		value := id[:]
		if h.DueAt() != 0 {
			value = appendLane(nil, h.Place().Lane)
		}
		var buf [128]byte
		c.set(appendStanding(buf[:0], h), value)
		if h.Line() == job.Calls {
			c.set(appendTimed(buf[:0], kindDeadline, h.Job.Deadline, id), nil)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	stands := make([]store.Handed, 0, len(work))
	seen := make(map[job.ID]bool, len(work))
	for _, h := range work {
		id := h.Job.ID
		there := back[id]
		if !there {
			if there, err = s.stands(h); err != nil {
				return nil, err
			}
		}
		if there && !seen[id] {
			seen[id] = true
			stands = append(stands, h)
		}
	}
	return stands, nil
}

// stands reports whether work is where it was when it was offered.
func (s *Store) stands(h store.Handed) (bool, error) {
	if _, offered := s.offers.get(h.Job.ID); offered {
		return false, nil
	}
	now, err := s.snapshot(h.Job.ID)
	if err != nil {
		if store.MovedOn(err) {
			err = nil
		}
		return false, err
	}
	return h.Stands(now), nil
}

// Forget is store.HandOff.Forget. Nobody else has taken the keys of the jobs, as they had not ended.
func (s *Store) Forget(ctx context.Context, peer string, work []store.Handed) error {
	today := time.Now().UnixMilli() / dayMS
	s.offers.left.Store(true)
	return s.endOffers(ctx, peer, work, func(c *change, h store.Handed) error {
		var buf [64]byte
		j, id := h.Job, h.Job.ID
		if j.RedriveOf.IsZero() {
			c.remove(appendKey(buf[:0], j.Request.Key().Hash()))
		}
		c.remove(appendUser(buf[:0], j.Request.UserID, id))
		kinds := []byte{kindJob, kindState}
		if h.Line() == job.Deliveries {
			kinds = append(kinds, kindWebhook, kindPayload, kindFlushed)
		}
		for _, kind := range kinds {
			c.remove(appendID(buf[:0], kind, id))
		}
		return s.setRecord(c, appendLeft(buf[:0], today, id), j.Moves, 0)
	})
}

// endOffers ends the offers to a peer in one step, as end says for each job.
func (s *Store) endOffers(
	ctx context.Context, peer string, work []store.Handed, end func(*change, store.Handed) error,
) error {
	return s.transitMany(ctx, idsOf(work), func(c *change) (func(), error) {
		ended := make(map[job.ID]bool, len(work))
		for _, h := range work {
			id := h.Job.ID
			if to, ok := s.offers.get(id); !ok || ended[id] || to != (offer{Peer: peer, Moves: h.Job.Moves}) {
				continue
			}
			if err := end(c, h); err != nil {
				return nil, err
			}
			c.drop(appendID(nil, kindOffer, id))
			ended[id] = true
		}
		return func() { s.offers.remove(slices.Collect(maps.Keys(ended))...) }, nil
	})
}

func idsOf(work []store.Handed) []job.ID {
	ids := make([]job.ID, len(work))
	for i, h := range work {
		ids[i] = h.Job.ID
	}
	return ids
}

// transitMany is transition for many jobs.
func (s *Store) transitMany(ctx context.Context, ids []job.ID, build func(*change) (func(), error)) error {
	release, err := s.claimMany(ctx, ids, nil)
	if err != nil {
		return s.waited(err)
	}
	c := s.newChange()
	c.release = release
	leave, err := s.read(ctx)
	if err != nil {
		return s.abandon(c, err)
	}
	made, err := build(c)
	leave()
	if err != nil || len(c.ops) == 0 {
		return s.abandon(c, err)
	}
	c.made = func(job.Order) { made() }
	_, err = s.commit(ctx, c)
	return err
}

// claimMany claims jobs and keys and returns what gives them up.
func (s *Store) claimMany(ctx context.Context, ids []job.ID, keys []job.KeyHash) (release func(), err error) {
	s.expiring.Lock()
	defer s.expiring.Unlock()
	heldJobs, heldKeys := make(map[job.ID]bool, len(ids)), make(map[job.KeyHash]bool, len(keys))
	release = func() {
		for id := range heldJobs {
			s.jobs.release(id)
		}
		for key := range heldKeys {
			s.keys.release(key)
		}
	}
	for _, id := range ids {
		if err == nil && !heldJobs[id] {
			if err = s.jobs.take(ctx, id); err == nil {
				heldJobs[id] = true
			}
		}
	}
	for _, key := range keys {
		if err == nil && !heldKeys[key] {
			if err = s.keys.take(ctx, key); err == nil {
				heldKeys[key] = true
			}
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// forgetLeft stops remembering jobs that left long ago, up to a limit.
func (s *Store) forgetLeft(ctx context.Context, now time.Time, limit int) error {
	leave, err := s.read(ctx)
	if err != nil {
		return err
	}
	defer leave()
	it, err := s.iterate([]byte{kindLeft})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	c := s.newChange()
	end := appendDay(nil, now.UnixMilli()/dayMS-leftDays)
	for ok := it.First(); ok && bytes.Compare(it.Key(), end) < 0 && len(c.ops) < limit; ok = it.Next() {
		if s.readable(it.Key()) {
			c.remove(it.Key())
		}
	}
	if err := it.Error(); err != nil || len(c.ops) == 0 {
		return s.abandon(c, err)
	}
	_, err = s.commit(ctx, c)
	return err
}
