package store

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Getter is the part of Jobs that tells where a job stands.
type Getter interface {
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
}

// unreadPause is how long Certain waits before it reads again a job that could not be read.
const unreadPause = time.Second

// Certain makes a change of a job and returns when it is known whether it was made. An error may hide
// that a change was made all the same; then the job is read, and made tells from it.
//
// It returns nil if the change was made, else the error of change. Only when the store has failed or is
// closed, or ctx ends while the job cannot be read, an error leaves it open. change itself does not end with
// ctx, because a change that nobody waits for any more may still happen.
func Certain(
	ctx context.Context, jobs Getter, id job.ID, change func(context.Context) error, made func(job.Snapshot) bool,
) error {
	whole := context.WithoutCancel(ctx)
	err := change(whole)
	if err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrFailed) {
		return err
	}
	for {
		s, unread := jobs.Get(whole, id)
		switch {
		case unread == nil && made(s):
			return nil
		case unread == nil, errors.Is(unread, ErrNotFound):
			return err
		case errors.Is(unread, ErrClosed):
			return errors.Join(err, unread)
		}
		timer := time.NewTimer(unreadPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, unread)
		}
	}
}
