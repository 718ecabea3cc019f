package agenda_test

import (
	"context"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// spoiled is a store that cannot read some jobs, and shows them among what is due all the same.
type spoiled struct {
	store.Store
	ids map[job.ID]bool
}

func (s *spoiled) Get(ctx context.Context, id job.ID) (job.Snapshot, error) {
	if s.ids[id] {
		return job.Snapshot{}, store.ErrCorrupt
	}
	return s.Store.Get(ctx, id)
}

func (s *spoiled) Requeue(ctx context.Context, d store.Due) (job.Entry, error) {
	if s.ids[d.ID] {
		return job.Entry{}, store.ErrCorrupt
	}
	return s.Store.Requeue(ctx, d)
}

// Jobs that cannot be read hold up no other, however many they are, and are not asked for all the time.
func TestUnreadableJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		s := &spoiled{Store: r.Store, ids: map[job.ID]bool{}}
		r.Store = s
		for range 300 {
			s.ids[r.retry(in(time.Second), in(time.Hour)).ID] = true
			s.ids[r.insert(in(time.Second)).ID] = true
		}
		retried, late := r.retry(in(2*time.Second), in(time.Hour)), r.insert(in(2*time.Second))
		r.start()
		asleep(3 * time.Second)
		if !r.waits(retried) || !r.failed(late) {
			t.Error("readable jobs are held up")
		}
		r.looks()
		asleep(10 * time.Second)
		if n := r.looks(); n > 40 {
			t.Errorf("it looked %d times in 10 s", n)
		}
	})
}
