// Package retry does steps of the job store again until they are done.
//
// A store that fails is asked again, a little later each time: an outcome in hand must not get lost
// because a disk is full for a minute.
package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/aquifer-fleet/aquifer/node/alarm"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// Config is what a Retrier is built from.
type Config struct {
	// Limit bounds the wait between two tries, but for up to a tenth more.
	Limit time.Duration
	// Final reports whether an error is an answer, and no failure that may pass.
	Final func(error) bool
	// Alarm is raised with every failure; nil: nobody is told.
	Alarm *alarm.Alarm
}

// Retrier does steps until they are done. It is safe for concurrent use.
type Retrier struct{ Config }

// New returns a retrier.
func New(c Config) *Retrier { return &Retrier{c} }

// Do does a step about a job until it is done, its error is final or ctx ends; the error says which. It
// is tried once also after the end of ctx, so that a node that stops records what it knows.
func (r *Retrier) Do(ctx context.Context, step string, id job.ID, do func() error) error {
	for failures := 0; ; failures++ {
		err := do()
		if err == nil || r.Final(err) {
			return err
		}
		if r.Alarm != nil {
			r.Alarm.Raise(ctx, err, "step", step, "job_id", id.String())
		}
		timer := time.NewTimer(pace.Backoff(failures, r.Limit, rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
