package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

var (
	errWrite = errors.New("write failed")
	errRead  = errors.New("read failed")
)

// jobs is a Getter that answers with the next of its errors, and with nil at last.
type jobs struct {
	errs  []error
	reads int
}

func (j *jobs) Get(ctx context.Context, _ job.ID) (job.Snapshot, error) {
	if ctx.Err() != nil {
		return job.Snapshot{}, ctx.Err()
	}
	j.reads++
	if len(j.errs) == 0 {
		return job.Snapshot{}, nil
	}
	err := j.errs[0]
	j.errs = j.errs[1:]
	return job.Snapshot{}, err
}

func TestCertain(t *testing.T) {
	tests := map[string]struct {
		change error
		unread []error // errors of the reads before the first that works
		made   bool
		want   error
		reads  int
		after  time.Duration
	}{
		"made":                         {reads: 0},
		"stale":                        {change: store.ErrStale, made: true, want: store.ErrStale},
		"not found":                    {change: store.ErrNotFound, made: true, want: store.ErrNotFound},
		"failed":                       {change: errWrite, want: errWrite, reads: 1},
		"failed but landed":            {change: errWrite, made: true, reads: 1},
		"disk full":                    {change: store.ErrFull, want: store.ErrFull, reads: 1},
		"failed and gone":              {change: errWrite, unread: []error{store.ErrNotFound}, want: errWrite, reads: 1},
		"failed, closed":               {change: errWrite, unread: []error{store.ErrClosed}, want: store.ErrClosed, reads: 1},
		"failed, not readable at once": {change: errWrite, unread: []error{errRead, errRead}, want: errWrite, reads: 3, after: 2 * time.Second},
		"not readable ever":            {change: errWrite, unread: []error{store.ErrCorrupt}, want: store.ErrCorrupt, reads: 1},
		"unreadable":                   {change: store.ErrCorrupt, want: store.ErrCorrupt},
		"landed, not readable at once": {change: errWrite, unread: []error{errRead}, made: true, reads: 2, after: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, start := &jobs{errs: tt.unread}, time.Now()
				err := store.Certain(t.Context(), j, job.ID{1},
					func(context.Context) error { return tt.change },
					func(job.Snapshot) bool { return tt.made })
				if !errors.Is(err, tt.want) || j.reads != tt.reads {
					t.Errorf("%v after %d reads, want %v after %d", err, j.reads, tt.want, tt.reads)
				}
				if took := time.Since(start); took < tt.after || took > tt.after*11/10 {
					t.Errorf("took %v, want %v and up to a tenth more", took, tt.after)
				}
			})
		})
	}
}

// A change that was given up half-way might still happen, so it is not; what its caller gives up is
// the waiting for a store that cannot be read.
func TestCertainAfterTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	change := func(err error) func(context.Context) error {
		return func(ctx context.Context) error { return errors.Join(err, ctx.Err()) }
	}
	yes := func(job.Snapshot) bool { return true }
	if err := store.Certain(ctx, &jobs{}, job.ID{1}, change(nil), yes); err != nil {
		t.Errorf("a change: %v", err)
	}
	if err := store.Certain(ctx, &jobs{}, job.ID{1}, change(errWrite), yes); err != nil {
		t.Errorf("a change that landed: %v", err)
	}
	err := store.Certain(ctx, &jobs{errs: []error{errRead}}, job.ID{1}, change(errWrite), yes)
	if !errors.Is(err, errWrite) || !errors.Is(err, errRead) {
		t.Errorf("an open one: %v", err)
	}
}
