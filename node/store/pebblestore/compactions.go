package pebblestore

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactions says when Pebble may compact: not before the store is open, because Pebble ends its opening
// only when no compaction runs, and one that finds no room on a full disk would be followed by the next.
//
// Pebble's own scheduler cannot be told to wait, and asks ten times a second whether more compactions
// may run, also in an idle process. This one asks when something has changed: a compaction has ended, or
// a flush has.
type compactions struct {
	db       pebble.DBForCompaction // set by Register, before all else
	granting sync.Mutex             // held while work is given out, never by who holds a lock of db
	giving   sync.WaitGroup         // those who give out work

	// mu guards the rest. Nothing is asked of db under it but the limit, which takes no lock.
	mu      sync.Mutex
	open    bool
	ended   bool
	running int
	resting *time.Timer // nil unless none may begin for a while
}

func newCompactions() *compactions { return new(compactions) }

// Register is pebble.CompactionScheduler.Register.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister returns when nobody gives out work any more.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.ended = true
	if c.resting != nil {
		c.resting.Stop()
	}
	c.mu.Unlock()
	c.giving.Wait()
}

// TrySchedule gives a slot for one compaction, if there is one.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.free() {
		return false, nil
	}
	c.running++
	return true, c
}

// free reports whether one more compaction may run. The caller holds mu.
func (c *compactions) free() bool {
	return c.open && !c.ended && c.resting == nil && c.running < c.db.GetAllowedWithoutPermission()
}

// UpdateGetAllowedWithoutPermission is told that a flush has ended, which may have raised the limit. Its
// caller holds locks of db.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free() {
		c.giving.Go(c.grant)
	}
}

// start lets compactions run, also those that Pebble has asked for meanwhile.
func (c *compactions) start() {
	c.mu.Lock()
	c.open = true
	c.mu.Unlock()
	c.grant()
}

// rest lets no compaction begin for so long. One that has failed would be followed by the next at once.
func (c *compactions) rest(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting != nil || c.ended {
		return
	}
	c.resting = time.AfterFunc(d, func() {
		c.mu.Lock()
		c.resting = nil
		c.mu.Unlock()
		c.grant()
	})
}

// grant gives free slots to compactions that wait. A slot is taken when its compaction has accepted it, so
// that a compaction which asks meanwhile is not turned away in vain; at worst one too many runs for a time.
func (c *compactions) grant() {
	if !c.begin() {
		return
	}
	defer c.giving.Done()
	c.granting.Lock()
	defer c.granting.Unlock()
	for {
		c.mu.Lock()
		free := c.free()
		c.mu.Unlock()
		if !free {
			return
		}
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting || !c.db.Schedule(c) {
			return
		}
		c.mu.Lock()
		c.running++
		c.mu.Unlock()
	}
}

// begin reports whether work may still be given out; then giving counts the caller.
func (c *compactions) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.giving.Add(1)
	}
	return !c.ended
}

// Done gives a slot back.
func (c *compactions) Done() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	c.grant()
}

// Started is pebble.CompactionGrantHandle.Started. What compactions cost is not measured.
func (c *compactions) Started() {}

// MeasureCPU does nothing: see Started.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats does nothing: see Started.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
