package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// order is a job as the one sees it who wants it done.
type order struct {
	client.Submission
	id        string // as acknowledged; empty before
	duplicate bool   // the acknowledgement said that the job was known
	seen      bool   // a stream has told the end
}

// newOrder returns the order of a call to the world's target; /fast, /slow and /flaky say how target and
// receiver behave.
func newOrder(w *world, user, key, path, hook string) *order {
	return &order{Submission: client.Submission{
		UserID: user, IdempotentKey: key, Method: http.MethodPost, URL: w.target.URL + path, WebhookURL: w.receiver.URL + hook,
		Body: []byte("the body of " + user + " " + key),
	}}
}

// place submits the order until a node acknowledges it. What comes in between is a node that is not
// there, or that takes nothing just now.
func (o *order) place(ctx context.Context, c *client.Client) error {
	for {
		r, err := c.Submit(ctx, o.Submission)
		if err == nil {
			o.id, o.duplicate = r.JobID, r.Duplicate
			if r.PayloadMismatch {
				return fmt.Errorf("job %s of key %s has another payload", r.JobID, o.IdempotentKey)
			}
			return nil
		}
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusServiceUnavailable {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// watch follows the job to its end. A node that dies before it has answered does not count.
func (o *order) watch(ctx context.Context, c *client.Client) error {
	for {
		err := o.follow(ctx, c)
		var refused *client.Error
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
	}
}

func (o *order) follow(ctx context.Context, c *client.Client) error {
	for e, err := range c.Watch(ctx, o.id, "") {
		if err != nil {
			return err
		}
		o.seen = o.seen || e.Terminal()
	}
	return nil
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle waits until the job has ended and its delivery too, and returns it then. The zero Job says
// that the node knows no such job.
func (o *order) settle(t *testing.T, c *client.Client, limit time.Duration) (j client.Job) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var err error
	what := func() string { return fmt.Sprintf("%s is %+v (%v)", o.IdempotentKey, j, err) }
	eventually(t, limit, what, func() bool {
		j, err = c.Get(ctx, o.id)
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			return true
		}
		return err == nil && j.Status.Ended() && j.Webhook.State.Settled()
	})
	return j
}
