package store

import (
	"context"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Ledger is the list of the jobs that have ended and of which another system is to be told, batch after
// batch. A store that is opened to keep one enters each job in the step that ends it, unless the job leaves no trace. The other calls
// work in any case, on what was entered before.
//
// A job goes from the ledger to the flushed ones, and is removed as one of them or when it expires.
type Ledger interface {
	// Ledgered returns how many jobs were entered since the store was opened. It is cheap.
	Ledgered() uint64
	// LedgerBatch returns the batch that is to be flushed, in order: the first entries, up to limit, which
	// must be positive. From then on it is the same batch, whatever the limit, also after a crash or a power
	// cut, until LedgerFlushed. It is empty if there are no entries.
	LedgerBatch(ctx context.Context, limit int) ([]job.LedgerEntry, error)
	// LedgerFlushed takes the batch, which ends with the entry last, off the ledger. ErrStale if that is not
	// the end of the batch.
	LedgerFlushed(ctx context.Context, last job.Order) error
	// ClearFlushed removes the jobs of all flushed entries, as Expire does when their time is over, and
	// returns how many there were. A job whose delivery is not settled stays, and goes with a later call. It
	// works in parts: what ctx interrupts has happened as far as the number says.
	ClearFlushed(ctx context.Context) (int, error)
}
