package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// persistBackoff bounds the wait between two tries of a store that fails.
const persistBackoff = 10 * time.Second

// persist does a step of the store until it is done, the job turns out to have moved on, or the node
// stops; the error says which. A store that fails is asked again, a little later each time: an outcome
// in hand must not get lost because a disk is full for a minute. A step is tried once also after the
// end of ctx, so that a node that stops records what it knows.
func (e *Ending) persist(ctx context.Context, step string, do func() error) error {
	for failures := 0; ; failures++ {
		err := do()
		if err == nil || movedOn(err) || errors.Is(err, store.ErrClosed) {
			return err
		}
		e.failures.note(e.Logger, step, err)
		timer := time.NewTimer(pace.Backoff(failures, persistBackoff, rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// movedOn reports whether an error says that a job had left the state that a step speaks for.
func movedOn(err error) bool {
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound)
}

// failures logs that the store fails, at most once a second: a disk that is full is not to be filled
// with lines that say so. It is safe for concurrent use.
type failures struct {
	// due is when the next line may be written, in Unix ms; who moves it writes the line.
	due     atomic.Int64
	unheard atomic.Int64 // failures since the last line
}

func (f *failures) note(log *slog.Logger, step string, err error) {
	now, due := time.Now().UnixMilli(), f.due.Load()
	if now < due || !f.due.CompareAndSwap(due, now+1000) {
		f.unheard.Add(1)
		return
	}
	log.Error("job not recorded", "step", step, "error", err, "more_before", f.unheard.Swap(0))
}
