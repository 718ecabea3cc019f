package pebblestore

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

const (
	// listLooks is how many jobs one List looks at beyond those it returns.
	listLooks = 1000
	// listBytes is how much of bodies one List reads before it ends the page: what it holds in memory is
	// at most one job more.
	listBytes = 4 << 20
)

// List is store.Jobs.List.
func (s *Store) List(ctx context.Context, q store.Query) (page store.Page, err error) {
	leave, err := s.read(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer leave()
	it, err := s.listIterator(q)
	if err != nil {
		return store.Page{}, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	looked, bytes := 0, 0
	for ok := it.Last(); ok; ok = it.Prev() {
		if !s.readable(it.Key()) {
			continue
		}
		id := keyID(it.Key())
		snapshot, err := s.snapshot(id)
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
			return store.Page{}, err
		}
		looked++
		if err == nil {
			bytes += bodies(snapshot)
			if matches(snapshot, q) {
				page.Jobs = append(page.Jobs, snapshot)
			}
		}
		full := len(page.Jobs) >= q.Limit || looked >= q.Limit+listLooks || bytes >= listBytes
		if full || ctx.Err() != nil {
			if it.Prev() {
				page.Next = id
			}
			return page, context.Cause(ctx)
		}
	}
	return page, it.Error()
}

// bodies is the size of what a job was sent and answered with.
func bodies(x job.Snapshot) int {
	n := len(x.Job.Request.Body)
	if x.State.Result != nil {
		n += len(x.State.Result.Body)
	}
	return n
}

// listIterator iterates over keys that end in the ids of the jobs that may be asked for.
func (s *Store) listIterator(q store.Query) (*pebble.Iterator, error) {
	prefix := []byte{kindJob}
	if q.UserID != "" {
		hash := sha256.Sum256([]byte(q.UserID))
		prefix = append([]byte{kindUser}, hash[:16]...)
	}
	upper := after(prefix)
	if !q.Before.IsZero() {
		upper = append(prefix[:len(prefix):len(prefix)], q.Before[:]...)
	}
	return s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: upper})
}

func matches(x job.Snapshot, q store.Query) bool {
	return (q.UserID == "" || q.UserID == x.Job.Request.UserID) &&
		(q.Status == "" || q.Status == x.State.Phase()) &&
		(q.Target == "" || q.Target == x.Job.Lane().Host()) &&
		(q.Webhook == "" || q.Webhook == x.Webhook.Phase())
}
