package pebblestore

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// compactions says when Pebble may compact: not before the store is open, because Pebble ends its opening
// only when no compaction runs, and one that finds no room on a full disk would be followed by the next.
//
// The limit of compactions hardly ever changes, so nothing looks at it ten times a second, as Pebble's
// usual scheduler does, also in an idle process and in virtual time.
type compactions struct {
	*pebble.ConcurrencyLimitScheduler
	open atomic.Bool
}

func newCompactions() *compactions {
	return &compactions{
		ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
	}
}

// TrySchedule gives a slot for one compaction, if there is one.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.open.Load() {
		return false, nil
	}
	return c.ConcurrencyLimitScheduler.TrySchedule()
}

// start lets compactions run, also those that Pebble has asked for meanwhile: a slot that is given back
// goes to them.
func (c *compactions) start() {
	c.open.Store(true)
	if ok, slot := c.TrySchedule(); ok {
		slot.Done()
	}
}
