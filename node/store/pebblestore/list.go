package pebblestore

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// listLooks is how many jobs one List looks at beyond those it returns.
const listLooks = 1000

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
	for ok, looked := it.Last(), 0; ok; ok = it.Prev() {
		id := keyID(it.Key())
		snapshot, err := s.snapshot(id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Page{}, err
		}
		if looked++; err == nil && matches(snapshot, q) {
			page.Jobs = append(page.Jobs, snapshot)
		}
		if full := len(page.Jobs) >= q.Limit; full || looked >= q.Limit+listLooks || ctx.Err() != nil {
			if it.Prev() {
				page.Next = id
			}
			return page, context.Cause(ctx)
		}
	}
	return page, it.Error()
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
