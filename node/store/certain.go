package store

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/retry"
)

// Getter is the part of Jobs that tells where a job stands.
type Getter interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
}

// MovedOn reports whether an error says that a job has left the state that a step speaks for: it was
// changed since, is gone, or cannot be read any more.
func MovedOn(err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt)
}

// Final reports whether a step that failed with an error is not to be tried again: its job has moved on,
// or the store is closed.
func Final(err error) bool { return MovedOn(err) || errors.Is(err, ErrClosed) }

// unreadPause is how long Certain waits before it reads again a job that could not be read.
const unreadPause = time.Second

// Certain makes a change of a job and returns when it is known whether it was made. An error may hide
// that a change was made all the same; then the job is read, and made tells from it.
//
// It returns nil if the change was made, else the error of change. Only when the store has failed or is
// closed, the job is unreadable, or ctx ends while it cannot be read, an error leaves it open. change itself does not end with
// ctx, because a change that nobody waits for any more may still happen.
func Certain(
	ctx context.Context, jobs Getter, id job.ID, change func(context.Context) error, made func(job.Snapshot) bool,
) error {
	whole := context.WithoutCancel(ctx)
	err := change(whole)
	if err == nil || MovedOn(err) || errors.Is(err, ErrFailed) {
		return err
	}
	var s job.Snapshot
	reading := retry.New(retry.Config{Limit: unreadPause, Final: func(err error) bool {
		return errors.Is(err, ErrNotFound) || errors.Is(err, ErrClosed) || errors.Is(err, ErrCorrupt)
	}})
	unread := reading.Do(ctx, "read", id, func() (err error) {
		s, err = jobs.Get(whole, id)
		return err
	})
	switch {
	case unread == nil && made(s):
		return nil
	case unread == nil, errors.Is(unread, ErrNotFound):
		return err
	default:
		return errors.Join(err, unread)
	}
}
