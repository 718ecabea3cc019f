package drain

import (
	"context"
	"errors"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Event says why the sink is told.
type Event string

// The events of a batch.
const (
	LedgerBatch  Event = "ledger_batch"  // some time has passed
	InstanceIdle Event = "instance_idle" // the node has no work, or ends
)

var (
	errTimeout = errors.New("no answer in time")
	errBusy    = errors.New("there is new work")
)

// A batch is tried five times, as every synchronous delivery, and then again with the next occasion.
const (
	retries    = 4
	firstRetry = time.Second // doubled with each one
	attempt    = 30 * time.Second
)

// Flush tells the sink all that is left, because the node ends. It returns when that is done, or has failed,
// or ctx has ended; what is left then is told by the next process. It belongs behind the end of Run.
func (d *Drain) Flush(ctx context.Context) error {
	return d.flush(ctx, InstanceIdle, func() bool { return true })
}

// flush tells the sink batch after batch, until nothing is left, or until it is not wanted any more.
func (d *Drain) flush(ctx context.Context, why Event, wanted func() bool) error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	for {
		n, err := d.flushOne(ctx, why, wanted)
		if errors.Is(err, errBusy) || err != nil && ctx.Err() != nil {
			return err
		}
		d.note(n, err)
		if err != nil || n == 0 || why == LedgerBatch && n < d.BatchMaxEvents {
			return err
		}
	}
}

// flushOne tells the sink one batch and returns how many entries that has; 0 if there is nothing to tell.
func (d *Drain) flushOne(ctx context.Context, why Event, wanted func() bool) (int, error) {
	batch, err := d.Ledger.LedgerBatch(ctx, d.BatchMaxEvents)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	if err := d.deliver(ctx, why, batch, wanted); err != nil {
		return len(batch), err
	}
	return len(batch), d.Ledger.LedgerFlushed(ctx, batch[len(batch)-1].Sequence)
}

// deliver has the sink take a batch. That the node is idle is not told any more when it is not.
func (d *Drain) deliver(ctx context.Context, why Event, batch []job.LedgerEntry, wanted func() bool) error {
	for failures := 0; ; failures++ {
		if !wanted() {
			return errBusy
		}
		err := d.try(ctx, why, batch)
		if err == nil || ctx.Err() != nil || failures == retries {
			return err
		}
		d.Logger.Debug("drain sink has not taken a batch", "batch_id", batchID(batch), "failures", failures+1, "error", err)
		if pause(ctx, d.jittered(firstRetry<<failures)); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (d *Drain) try(ctx context.Context, why Event, batch []job.LedgerEntry) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attempt, errTimeout)
	defer cancel()
	err := d.sink.take(ctx, why, batch)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// note keeps account of a batch that went well or did not; n is 0 if there was none.
func (d *Drain) note(n int, err error) {
	if n > 0 {
		d.metrics.count(n, err)
	}
	d.mu.Lock()
	before := d.failures
	if d.failures++; err == nil {
		d.failures = 0
	}
	failures := d.failures
	d.mu.Unlock()
	switch {
	case err != nil && failures&(failures-1) == 0: // each power of two: a night of it is a dozen lines
		d.Logger.Warn("ledger not flushed, and tries again", "error", err, "failures", failures)
	case err == nil && before > 0:
		d.Logger.Info("ledger can be flushed again", "failures", before)
	}
}

// jittered is a duration and up to a tenth more.
func (d *Drain) jittered(t time.Duration) time.Duration {
	return t + time.Duration(d.Jitter()*float64(t)/10)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
