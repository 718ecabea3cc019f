package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Interrupted is store.Upkeep.Interrupted.
func (s *Store) Interrupted(ctx context.Context) ([]store.Interrupted, error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.attempts.interrupted(), nil
}

// Sync is store.Upkeep.Sync.
func (s *Store) Sync(ctx context.Context) error {
	c := s.newChange()
	c.durable = true
	_, err := s.commit(ctx, c)
	return err
}

// usageAge is how old the reading of the size may be.
const usageAge = 250 * time.Millisecond

// usage is the last reading of the size on disk, which costs too much for every request.
type usage struct {
	mu    sync.Mutex // guards all
	bytes int64
	read  time.Time
}

// Usage is store.Upkeep.Usage. The ballast is not counted.
func (s *Store) Usage() store.Usage {
	now := time.Now()
	writing := s.committer.lag(now)
	return store.Usage{
		Bytes: s.bytes(now), SyncLag: max(s.logs.lag(now), writing), DiskLag: max(s.logs.diskLag(now), writing),
	}
}

func (s *Store) bytes(now time.Time) int64 {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if s.usage.read.IsZero() || now.Sub(s.usage.read) >= usageAge {
		if leave, err := s.read(context.Background()); err == nil {
			s.usage.bytes, s.usage.read = int64(s.db.Metrics().DiskSpaceUsage()), now
			leave()
			s.volume.missing()
		}
	}
	return s.usage.bytes
}

// expireChunk is how many jobs one batch removes.
const expireChunk = 256

// Expire is store.Upkeep.Expire.
func (s *Store) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	s.expiring.Lock()
	defer s.expiring.Unlock()
	if err := s.forgetLeft(ctx, now, limit); err != nil {
		return 0, err
	}
	removed := 0
	from := []byte{kindExpiry} // each chunk begins behind the last one, not among what that left behind
	for removed < limit {
		ids, err := s.expiredIDs(ctx, from, now, min(limit-removed, expireChunk))
		if err != nil || len(ids) == 0 {
			return removed, err
		}
		n, err := s.expireSome(ctx, ids)
		if err != nil {
			return removed, err
		}
		removed += n
		last := ids[len(ids)-1]
		from = append(appendTimed(nil, kindExpiry, last.ms, last.id), 0)
	}
	return removed, nil
}

// expireSome removes jobs in one step and returns how many. What cannot be read is kept.
func (s *Store) expireSome(ctx context.Context, ids []expiredKey) (removed int, err error) {
	c := s.newChange()
	var release []func()
	c.release = func() {
		for _, f := range release {
			f()
		}
	}
	for _, x := range ids {
		release, err = s.expireOne(ctx, c, x, release)
		switch {
		case err == nil:
			removed++
		case !errors.Is(err, store.ErrCorrupt):
			return 0, s.abandon(c, err)
		}
	}
	if removed == 0 {
		return 0, s.abandon(c, nil)
	}
	_, err = s.commit(ctx, c)
	signal(s.reclaimer.wake)
	return removed, err
}

// expiredKey is an entry of the expiry index.
type expiredKey struct {
	ms int64
	id job.ID
}

// expiredIDs returns the first entries of the expiry index at or behind from that are over.
func (s *Store) expiredIDs(ctx context.Context, from []byte, now time.Time, limit int) (list []expiredKey, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	it, err := s.iterate([]byte{kindExpiry})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.SeekGE(from); ok && len(list) < limit; ok = it.Next() {
		if !s.readable(it.Key()) || s.unreadable.stops(keyID(it.Key())) {
			continue
		}
		x := expiredKey{ms: keyMS(it.Key()), id: keyID(it.Key())}
		if x.ms > now.UnixMilli() {
			break
		}
		list = append(list, x)
	}
	return list, it.Error()
}

// expireOne adds the removal of one job to the change and returns release with what gives up its claims.
func (s *Store) expireOne(ctx context.Context, c *change, x expiredKey, release []func()) ([]func(), error) {
	if err := s.jobs.take(ctx, x.id); err != nil {
		return release, err
	}
	release = append(release, func() { s.jobs.release(x.id) })
	leave, err := s.read(ctx)
	if err != nil {
		return release, err
	}
	defer leave()
	var buf [64]byte
	// Owed again in the meantime: the entry is gone, and the job stays.
	expiry := appendTimed(nil, kindExpiry, x.ms, x.id)
	var delivery job.Webhook
	err = s.get(expiry, func(value []byte) error {
		_, err := s.codec.decode(value, &delivery)
		return err
	})
	if err != nil {
		return release, ignoreNotFound(err)
	}
	j, _, err := s.getJob(x.id)
	if errors.Is(err, store.ErrNotFound) {
		err = s.unreadable.note(expiry, fmt.Errorf("%w: there is no such job", errMalformed))
	}
	if err != nil {
		return release, err
	}
	if j.RedriveOf.IsZero() {
		if release, err = s.expireKey(ctx, c, j, release); err != nil {
			return release, err
		}
	}
	if j.Moves > 0 { // whoever handed it over here may still ask
		s.offers.left.Store(true)
		if err := s.setRecord(c, appendLeft(buf[:0], time.Now().UnixMilli()/dayMS, x.id), j.Moves, 0); err != nil {
			return release, err
		}
	}
	s.reclaimer.bytes.Add(int64(len(j.Request.Body)))
	c.drop(expiry)
	c.remove(appendUser(buf[:0], j.Request.UserID, x.id))
	c.remove(appendID(buf[:0], kindJob, x.id))
	c.remove(appendID(buf[:0], kindState, x.id))
	if s.ledger.keep {
		c.remove(appendID(buf[:0], kindFlushed, x.id))
	}
	if delivery.State.Owable() { // its body is still there
		c.remove(appendID(buf[:0], kindPayload, x.id))
	}
	return release, nil
}

// expireKey frees the key of a job that expires, unless another job has taken it since.
func (s *Store) expireKey(ctx context.Context, c *change, j *job.Job, release []func()) ([]func(), error) {
	hash := j.Request.Key().Hash()
	if err := s.keys.take(ctx, hash); err != nil {
		return release, err
	}
	release = append(release, func() { s.keys.release(hash) })
	var buf [64]byte
	key := appendKey(buf[:0], hash)
	mine := false
	err := s.get(key, func(value []byte) error {
		mine = len(value) > idLen && job.ID(value[:idLen]) == j.ID
		return nil
	})
	if err != nil || !mine {
		return release, ignoreNotFound(err)
	}
	c.remove(key)
	return release, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// fillFilter fills the key filter at the start and whenever it is worn out, until the store closes.
func (s *Store) fillFilter() {
	for {
		select {
		case <-s.closing:
			return
		case <-s.filter.refill:
		}
		for room := s.filterRoom(); ; room *= 4 {
			keys, err := s.fillOnce(room)
			if err != nil {
				// The store closes or has failed; the filter stays as it is, which costs only time.
				return
			}
			if keys <= room/2 {
				s.filter.end(room - keys)
				break
			}
		}
	}
}

// filterRoom is for how many keys a filter should be made, by the size of the key index on disk. An entry
// takes at least 64 bytes there, which do not compress.
func (s *Store) filterRoom() int {
	room := filterKeys
	leave, err := s.read(context.Background())
	if err != nil {
		return room
	}
	defer leave()
	size, err := s.db.EstimateDiskUsage([]byte{kindKey}, []byte{kindKey + 1})
	for err == nil && uint64(room/2) < size/64 {
		room *= 4
	}
	return room
}

// fillOnce fills a filter made for so many keys, and returns how many there are; it may stop early when
// they are too many.
func (s *Store) fillOnce(room int) (keys int, err error) {
	ctx := context.Background()
	leave, err := s.read(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	var it *pebble.Iterator
	var iterErr error
	c := s.newChange()
	c.visible = func() {
		s.filter.begin(room)
		it, iterErr = s.iterate([]byte{kindKey})
	}
	_, err = s.commit(ctx, c)
	if it == nil {
		return 0, errors.Join(err, iterErr)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	chunk := make([]job.KeyHash, 0, 1024)
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && keys <= room/2; ok = it.Next() {
		if keys++; s.isClosing() {
			return 0, store.ErrClosed
		}
		if !s.readable(it.Key()) {
			continue
		}
		if chunk = append(chunk, job.KeyHash(it.Key()[1:])); len(chunk) == cap(chunk) {
			s.filter.fill(chunk)
			chunk = chunk[:0]
		}
	}
	s.filter.fill(chunk)
	return keys, it.Error()
}
