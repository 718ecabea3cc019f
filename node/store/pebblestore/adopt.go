package pebblestore

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Judge is store.HandOff.Judge.
func (s *Store) Judge(ctx context.Context, work []store.Handed) ([]store.Adoption, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.judgeAll(ctx, work)
}

func (s *Store) judgeAll(ctx context.Context, work []store.Handed) ([]store.Adoption, error) {
	list := make([]store.Adoption, len(work))
	today := time.Now().UnixMilli() / dayMS
	var mine batchOf
	for i, h := range work {
		v, err := s.judge(ctx, h, today)
		if err != nil {
			return nil, err
		}
		list[i].Verdict = mine.judge(h, v)
	}
	// On a store that has failed, what is held may never have got to the disk.
	if err := s.volume.failure(); err != nil {
		return nil, err
	}
	return list, nil
}

// judge says what becomes of a job, apart from the others that come with it. One whose record here cannot
// be read is unsettled for good: what it was is not known.
func (s *Store) judge(ctx context.Context, h store.Handed, today int64) (store.Verdict, error) {
	id := h.Job.ID
	left, err := s.hasLeft(today, id)
	var here *job.Job
	if err == nil {
		here, _, err = s.getJob(id)
		err = ignoreNotFound(err)
	}
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return store.Unsettled, nil
	case err != nil:
		return 0, err
	}
	_, offered := s.offers.get(id)
	v := store.Weigh(h.Job.Moves, here, offered, left)
	if v != store.Adopted || !h.Job.RedriveOf.IsZero() {
		return v, nil
	}
	holder, taken, err := s.holder(ctx, h.Job.Request.Key().Hash())
	if errors.Is(err, store.ErrCorrupt) || taken && holder.ID != id {
		return store.Taken, nil
	}
	return v, err
}

// batchOf has the ids and keys of the jobs that one step adds, which must not get in each other's way.
type batchOf struct {
	ids  map[job.ID]bool
	keys map[job.KeyHash]bool
}

func (b *batchOf) judge(h store.Handed, v store.Verdict) store.Verdict {
	if v != store.Adopted {
		return v
	}
	if b.ids == nil {
		b.ids, b.keys = make(map[job.ID]bool), make(map[job.KeyHash]bool)
	}
	if b.ids[h.Job.ID] {
		return store.Unsettled
	}
	b.ids[h.Job.ID] = true
	if h.Job.RedriveOf.IsZero() {
		hash := h.Job.Request.Key().Hash()
		if b.keys[hash] {
			return store.Taken
		}
		b.keys[hash] = true
	}
	return v
}

// Adopt is store.HandOff.Adopt.
func (s *Store) Adopt(ctx context.Context, work []store.Handed) ([]store.Adoption, error) {
	var keys []job.KeyHash
	for _, h := range work {
		if h.Job.RedriveOf.IsZero() {
			keys = append(keys, h.Job.Request.Key().Hash())
		}
	}
	release, err := s.claimMany(ctx, idsOf(work), keys)
	if err != nil {
		return nil, s.waited(err)
	}
	c := s.newChange()
	c.release = release
	list, added, err := s.adoption(ctx, c, work)
	if err != nil || len(added) == 0 {
		return list, s.abandon(c, err)
	}
	c.durable = true
	c.made = func(job.Order) { s.offers.remove(added...) }
	first, err := s.commit(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Entry.Order != 0 {
			list[i].Entry.Order += first - 1
		}
	}
	return list, nil
}

// adoption builds the change that adds jobs. The orders of the entries that it returns count from 1.
func (s *Store) adoption(
	ctx context.Context, c *change, work []store.Handed,
) (list []store.Adoption, added []job.ID, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	if s.volume.full() {
		return nil, nil, store.ErrFull
	}
	if list, err = s.judgeAll(ctx, work); err != nil {
		return nil, nil, err
	}
	for i, h := range work {
		if list[i].Verdict != store.Adopted {
			continue
		}
		if err := s.adoptOne(c, h); err != nil {
			return nil, nil, err
		}
		list[i].Entry = h.Place()
		list[i].Entry.Order = 0
		if h.DueAt() == 0 {
			c.step()
			list[i].Entry.Order = job.Order(len(c.steps))
		}
		added = append(added, h.Job.ID)
	}
	return list, added, nil
}

// adoptOne adds one job, in place of an older copy that was offered. It always has a record of its state,
// and of what it owes, so that no record of that copy remains.
func (s *Store) adoptOne(c *change, h store.Handed) error {
	j, id := h.Job, h.Job.ID
	ended, inLane := h.Line() == job.Deliveries, h.DueAt() == 0
	var buf [128]byte
	if _, offered := s.offers.get(id); offered {
		c.drop(appendID(buf[:0], kindOffer, id))
	}
	err := s.setRecord(c, appendID(buf[:0], kindJob, id), j, 0)
	c.set(appendUser(buf[:0], j.Request.UserID, id), nil)
	if !ended {
		c.set(appendTimed(buf[:0], kindDeadline, j.Deadline, id), nil)
	}
	if j.RedriveOf.IsZero() {
		c.setHolder(j, j.Request.Key().Hash())
	}
	st := h.State
	st.Order = 0
	err = errors.Join(err, s.setRecord(c, appendID(buf[:0], kindState, id), st, 0))
	if inLane {
		c.placeRecord()
	}
	if ended {
		err = errors.Join(err, s.adoptDelivery(c, h))
	}
	e := h.Place()
	if inLane {
		c.setPlace(h.Line(), e.Lane, id)
	} else {
		c.set(appendDue(buf[:0], h.DueAt(), byte(dueKind(h.Line())), id), appendLane(nil, e.Lane))
	}
	return err
}

// adoptDelivery adds what is owed.
func (s *Store) adoptDelivery(c *change, h store.Handed) error {
	id := h.Job.ID
	w := h.Webhook
	w.Order = 0
	err := s.setRecord(c, appendID(nil, kindWebhook, id), w, 0)
	if h.DueAt() == 0 {
		c.placeRecord()
	}
	if h.Payload != nil {
		c.set(appendID(nil, kindPayload, id), h.Payload)
	}
	return err
}
