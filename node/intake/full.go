package intake

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// fullWait is what the first refusal for a full disk asks its caller to wait, and fullWaitMax the longest that one does.
const (
	fullWait    = 5 * time.Second
	fullWaitMax = time.Minute
)

// fullDisk makes those wait longer and longer who are refused one after another because the disk is full.
type fullDisk struct{ refused atomic.Int64 }

// note is the fault of a job that could not be stored.
func (f *fullDisk) note(err error) error {
	if !errors.Is(err, store.ErrFull) {
		return storeFault(err)
	}
	wait := fullWait
	for n := f.refused.Add(1); n > 1 && wait < fullWaitMax; n-- {
		wait *= 2
	}
	return diskFull(err, min(wait, fullWaitMax))
}

// ends tells that a job was stored.
func (f *fullDisk) ends() {
	if f.refused.Load() != 0 {
		f.refused.Store(0)
	}
}

// diskFull has no numbers: what is left to the last jobs is for what is accepted already.
func diskFull(err error, wait time.Duration) error {
	return &fault.Error{
		Kind: fault.Unavailable, Detail: "the disk is full", RetryAfter: wait, Err: err, Limit: &fault.Limit{Reason: "disk_full"},
	}
}
