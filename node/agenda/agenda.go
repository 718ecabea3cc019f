// Package agenda does what has come due: it brings retries back to their lanes, fails jobs whose
// deadline passed while they waited, and has the store remove what has expired.
//
// What is due stands in the store, sorted by time; the agenda holds only the moment at which it must
// look next. So it costs the same with ten jobs and with ten million, and a restart loses nothing.
package agenda

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what the agenda needs of the job store.
type Store interface {
	Due(ctx context.Context, now time.Time, limit int) ([]store.Due, time.Time, error)
	Requeue(ctx context.Context, d store.Due) (job.Entry, error)
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
}

// Line is a queue whose retries the agenda keeps.
type Line interface {
	// Resume counts due work that is about to join its lane again.
	Resume(lane job.Lane, id job.ID) intake.Place
	// Withdraw takes a job that waits at e out of its lane; false if it does not wait there.
	Withdraw(e job.Entry) bool
	// Gone says that a job that was withdrawn, or stood among what is due, has ended.
	Gone(lane job.Lane, id job.ID)
}

// Config is what an Agenda is built from.
type Config struct {
	Store      Store
	Calls      Line
	Deliveries Line
	// Fail ends a job whose deadline passed.
	Fail func(ctx context.Context, s job.Snapshot) error
	// Sweep is how often expired jobs are removed.
	Sweep  time.Duration
	Logger *slog.Logger
}

// Limits of one step, so that no step is long.
const (
	dueBatch    = 256
	expireBatch = 1000
	// recheck is how soon the agenda looks again at deadlines of jobs that are being sent, and at
	// a store that failed.
	recheck = time.Second
	// longest is how long it sleeps when nothing is due, so that a clock that jumps is noticed.
	longest = time.Minute
)

// Agenda does what has come due. Wake may be called from anywhere; the rest belongs to Run.
type Agenda struct {
	Config
	// next is when Run looks again, in Unix ms; Wake compares with it to signal only when needed.
	next   atomic.Int64
	signal chan struct{}
}

// New returns an agenda.
func New(c Config) *Agenda {
	return &Agenda{Config: c, signal: make(chan struct{}, 1)}
}

// Wake says that something comes due at a time.
func (a *Agenda) Wake(at time.Time) {
	if at.UnixMilli() >= a.next.Load() {
		return
	}
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (a *Agenda) Run(ctx context.Context) error {
	sweep := time.NewTicker(a.Sweep)
	defer sweep.Stop()
	for {
		// A Wake during the step signals, as its time is compared with zero or with a time past.
		a.next.Store(1<<63 - 1)
		wait := a.step(ctx)
		a.next.Store(time.Now().Add(wait).UnixMilli())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-sweep.C:
			a.expire(ctx)
		case <-a.signal:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step does what is due now and returns how long nothing else will be.
func (a *Agenda) step(ctx context.Context) time.Duration {
	held := 0 // deadlines of jobs that are being sent: they stay due until the attempt ends
	for ctx.Err() == nil {
		now := time.Now()
		due, next, err := a.Store.Due(ctx, now, dueBatch+held)
		if err != nil {
			return a.failed("due work not read", err)
		}
		stuck := 0
		for _, d := range due {
			done, err := a.do(ctx, d)
			if err != nil {
				return a.failed("due work not done", err)
			}
			if !done {
				stuck++
			}
		}
		if len(due) == dueBatch+held {
			held = stuck
			continue
		}
		return a.until(next, now, stuck)
	}
	return longest
}

func (a *Agenda) until(next, now time.Time, stuck int) time.Duration {
	wait := longest
	if !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	if stuck > 0 {
		wait = min(wait, recheck)
	}
	return max(wait, 0)
}

func (a *Agenda) failed(message string, err error) time.Duration {
	if !errors.Is(err, store.ErrClosed) && !errors.Is(err, context.Canceled) {
		a.Logger.Error(message, "error", err)
	}
	return recheck
}

// do does one thing that is due; done is false if it must stay due for now.
func (a *Agenda) do(ctx context.Context, d store.Due) (done bool, err error) {
	switch d.Kind {
	case store.DueCall:
		return true, a.requeue(ctx, a.Calls, d)
	case store.DueDelivery:
		return true, a.requeue(ctx, a.Deliveries, d)
	default:
		return a.deadline(ctx, d)
	}
}

func (a *Agenda) requeue(ctx context.Context, line Line, d store.Due) error {
	place := line.Resume(d.Lane, d.ID)
	e, err := a.Store.Requeue(ctx, d)
	if err != nil {
		place.Cancel()
		return ignoreStale(err)
	}
	place.Push(e, nil)
	return nil
}

// deadline fails a job that waits: in its lane, or for a retry.
func (a *Agenda) deadline(ctx context.Context, d store.Due) (done bool, err error) {
	s, err := a.Store.Get(ctx, d.ID)
	if err != nil {
		return true, ignoreStale(err)
	}
	place := job.Entry{Lane: d.Lane, Order: s.State.Order, ID: d.ID}
	if s.State.DueAt == 0 && !a.Calls.Withdraw(place) {
		return false, nil
	}
	err = a.Fail(ctx, s)
	if err != nil && !errors.Is(err, store.ErrStale) {
		return false, err
	}
	a.Calls.Gone(d.Lane, d.ID)
	return true, nil
}

// expire removes what has expired.
func (a *Agenda) expire(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := a.Store.Expire(ctx, time.Now(), expireBatch)
		if err != nil {
			a.failed("expired jobs not removed", err)
			return
		}
		if n < expireBatch {
			return
		}
	}
}

// ignoreStale drops the errors that say that the work has moved on by itself.
func ignoreStale(err error) error {
	if errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
