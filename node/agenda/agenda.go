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
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what the agenda needs of the job store.
type Store interface {
	Due(ctx context.Context, now time.Time, limit int) ([]store.Due, time.Time, error)
	Requeue(ctx context.Context, d store.Due) (job.Entry, error)
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
}

// Line is a queue whose retries the agenda keeps. *queue.Queue is one.
type Line interface {
	// Resume marks due work that is about to join its lane again. It is counted already.
	Resume(lane job.Lane, id job.ID) *queue.Place
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

const (
	// dueBatch is how many due things are read at once, expireBatch how many jobs are removed at once.
	dueBatch    = 256
	expireBatch = 1000
	// parallel is how many due things are done at a time, so that their changes share the way to the
	// disk.
	parallel = 64
	// recheck is how soon the agenda looks again at what could not be done, and at a store that failed.
	recheck = time.Second
	// maxSleep is how long it sleeps at most, so that a clock that jumps is noticed.
	maxSleep = time.Minute
)

// never is a time that does not come, in Unix ms.
const never = math.MaxInt64

// Agenda does what has come due. Wake may be called from anywhere, Run by one goroutine at a time.
type Agenda struct {
	Config
	// next is when Run looks again at the latest, in Unix ms. Wake may bring it forward; Run alone puts
	// it off.
	next atomic.Int64
	// signal has a token when Wake has brought next forward.
	signal chan struct{}
}

// New returns an agenda.
func New(c Config) *Agenda {
	return &Agenda{Config: c, signal: make(chan struct{}, 1)}
}

// Wake says that something comes due at a time.
func (a *Agenda) Wake(at time.Time) {
	if !a.bringForward(at) {
		return
	}
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// bringForward makes Run look at a time, if it does not look earlier anyway.
func (a *Agenda) bringForward(at time.Time) bool {
	ms := at.UnixMilli()
	for {
		next := a.next.Load()
		if ms >= next {
			return false
		}
		if a.next.CompareAndSwap(next, ms) {
			return true
		}
	}
}

// Run works until ctx ends.
func (a *Agenda) Run(ctx context.Context) error {
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	sweeping.Go(func() { a.sweep(ctx) })
	for ctx.Err() == nil {
		a.next.Store(never)
		if next := a.step(ctx); !next.IsZero() {
			a.bringForward(next)
		}
		a.sleep(ctx)
	}
	return nil
}

// sleep waits until something may be due.
func (a *Agenda) sleep(ctx context.Context) {
	select {
	case <-a.signal: // what it tells stands in next
	default:
	}
	timer := time.NewTimer(min(time.Until(time.UnixMilli(a.next.Load())), maxSleep))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-a.signal:
	case <-timer.C:
	}
}

// step does what is due now and returns when it must look again; zero if nothing else is due ever.
func (a *Agenda) step(ctx context.Context) time.Time {
	kept := 0 // things that could not be done yet: they stay the first ones that are due
	for {
		now := time.Now()
		due, next, err := a.Store.Due(ctx, now, dueBatch+kept)
		if err != nil {
			a.report("read", 1, err)
			return now.Add(recheck)
		}
		all := len(due) < dueBatch+kept
		done, failed := a.doAll(ctx, due)
		kept = len(due) - done
		switch again := now.Add(recheck); {
		case ctx.Err() != nil:
			return time.Time{}
		case !all && (done > 0 || failed == 0):
			continue
		case kept > 0 && (!all || next.IsZero() || next.After(again)):
			return again
		default:
			return next
		}
	}
}

// report logs that a step has failed so many times, unless that is because the node stops.
func (a *Agenda) report(step string, failed int, err error) {
	if !errors.Is(err, store.ErrClosed) && !errors.Is(err, context.Canceled) {
		a.Logger.Error("due work not done", "step", step, "count", failed, "error", err)
	}
}

// sweep removes what has expired, again and again.
func (a *Agenda) sweep(ctx context.Context) {
	ticker := time.NewTicker(a.Sweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.expire(ctx)
		}
	}
}

func (a *Agenda) expire(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := a.Store.Expire(ctx, time.Now(), expireBatch)
		if err != nil {
			a.report("expire", 1, err)
			return
		}
		if n < expireBatch {
			return
		}
	}
}
