// Package admit says yes or no to new work from what the process has left: memory, disk, and how far
// the disk is behind.
//
// Decide is the whole judgement and pure. A Gate puts the readings of this process before it and makes
// those wait longer and longer who are refused one after another. Work that is accepted already is
// never asked about, so a refusal cannot lose any.
//
// What one tenant or one target may hold is another question with another answer: its rules get a
// Decide of their own, which comes after this one and never makes the waits of this one grow.
package admit

import (
	"fmt"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// The reasons of a refusal, as they stand in fault.Limit and on the wire. The set is closed.
const (
	Memory  = "memory"   // in MB
	DBSize  = "db_size"  // in bytes
	SyncLag = "sync_lag" // in ms
)

// Auto is a limit that follows from what the machine has.
const Auto = -1

// MB is the unit of memory on the wire: 2^20 bytes.
const MB = 1 << 20

// Limits are the levels beyond which new work is refused. 0 turns a check off.
type Limits struct {
	Memory  int64 // bytes
	DB      int64 // bytes, or Auto: four fifths of what the store could have of its volume
	SyncLag time.Duration
}

// Readings are the state of the process at a moment.
type Readings struct {
	Memory   int64 // bytes that the process needs
	Reserved int64 // bytes of request bodies that are being read, on top of Memory
	DB       int64 // size of the store in bytes
	Admitted int64 // bytes of new work that DB may not show yet
	// Free and Volume are what the file system of the store can still take and its whole size, in
	// bytes. 0 for Volume: unknown.
	Free, Volume int64
	SyncLag      time.Duration // how long the oldest accepted change has waited for the disk
}

// Decide returns nil if new work may come, else a fault of kind Overloaded with the first limit that is
// passed, in the order memory, disk, lag.
func Decide(l Limits, r Readings) *fault.Error {
	if held := r.Memory + r.Reserved; l.Memory > 0 && held > l.Memory {
		return refusal("memory is over its limit", Memory, l.Memory/MB, (held+MB-1)/MB)
	}
	size := r.DB + r.Admitted
	if limit := l.dbLimit(r); limit > 0 && size > limit {
		return refusal("the store is over its limit", DBSize, limit, size)
	}
	if l.SyncLag > 0 && r.SyncLag > l.SyncLag {
		current := (r.SyncLag + time.Millisecond - 1).Milliseconds()
		return refusal("the disk is behind", SyncLag, l.SyncLag.Milliseconds(), current)
	}
	return nil
}

// bodiesPart is the part of the memory limit that request bodies may have which are being read.
const bodiesPart = 8

// DecideBody returns nil if so many bytes of request bodies may be held while they are read, else a fault
// of kind Overloaded.
func DecideBody(l Limits, reserved int64) *fault.Error {
	limit := l.Memory / bodiesPart
	if l.Memory == 0 || reserved <= limit {
		return nil
	}
	return refusal("request bodies are over their part of the memory", Memory, limit/MB, (reserved+MB-1)/MB)
}

func refusal(detail, reason string, limit, current int64) *fault.Error {
	return &fault.Error{
		Kind: fault.Overloaded, Detail: fmt.Sprintf("%s: %s %d of %d", detail, reason, current, limit),
		Limit: &fault.Limit{Reason: reason, Limit: limit, Current: current},
	}
}

// unmeasuredDB is the automatic limit where the volume cannot be measured: 800 MiB.
const unmeasuredDB = 800 * MB

// dbLimit is the size that the store may have now; 0 for any. Whatever the configuration allows, the
// reserve of the volume is left alone: intake closes before the disk is full, also when it is
// something else that fills it.
func (l Limits) dbLimit(r Readings) int64 {
	switch {
	case l.DB == 0:
		return 0
	case r.Volume == 0 && l.DB == Auto:
		return unmeasuredDB
	case r.Volume == 0:
		return l.DB
	}
	room := r.DB + r.Free
	limit := l.DB
	if l.DB == Auto {
		limit = room / 5 * 4
	}
	return max(min(limit, room-reserve(r.Volume)), 1)
}

// reserve is how much of a volume new work leaves free, for accepted work to end in and for the store
// to tidy up: a twentieth, but from 16 to 256 MiB, and never more than a quarter.
func reserve(volume int64) int64 {
	return min(max(volume/20, 16*MB), 256*MB, volume/4)
}
