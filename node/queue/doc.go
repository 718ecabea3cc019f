// Package queue decides which waiting job is sent next, and when.
//
// A lane is what one tenant has waiting for one target, first in, first out. A target's lanes take
// turns by start-time fair queueing with equal weights, and a target's Budget says when there is a
// turn and how many may be open. So a target never gets more than its settings allow, however many
// tenants it has, and a tenant that comes new waits for at most one turn of each other one.
//
// Nothing per tenant runs, and a queue that waits costs no goroutine: what happens next at a target is
// decided under the target's lock by whoever changes something (a job that comes in, a slot that comes
// free) or by the target's one timer. A turn runs in a goroutine of its own, and a target whose lanes
// have more on disk has one that reads.
//
// Work whose caller waits on an open connection may get a turn past the queue (Direct), if nothing waits for
// its target. It is present and counted like any other, but never in a window; it takes a slot, which the budget counts, and no lane is
// charged for it.
//
// The queue is memory only. It knows nothing of HTTP, of attempts or of how a job ends, and it stores
// nothing; what it forgets when the process ends, Restore brings back.
//
// # What is in memory
//
// A lane keeps a window of its next entries in memory. What is behind the window is only in the
// store, and costs nothing. An unfinished job is thus in one of four places, and only there:
//
//   - reserved: about to be stored or to come back to its lane (Reserve, Resume)
//   - in the window of its lane
//   - open: its turn is running
//   - on disk: in the store behind the window of its lane, or, after a turn that ended with Waits,
//     among what is due
//
// The first three are called present, and each present job has a Place, found by its id.
//
// # The refill protocol
//
// The store keeps a job in its lane from its insertion until its end or its retry, also while it is
// present here, and promises that entries become visible in the order of their Order. Of each lane the
// queue knows high, the highest Order it has ever had in memory, and whether there may be more on
// disk. Two things are true whenever the target's lock is free:
//
//	(1) No entry up to high is only on disk.
//	(2) Unless more is set, no entry at all is only on disk.
//
// Push takes an entry into the window, which keeps it sorted, and raises high. It leaves it on disk
// instead when it is behind high and there is more on disk, or the window is full: it then sets more,
// and dirty for a reader that may just have missed it. An entry before high goes into the window
// even if that is full, because of (1).
//
// When the window is half empty and more is set, the reader clears dirty, asks the store without a
// lock for entries behind high, and applies them under the lock. It takes an entry unless it is
// present (a reservation that is about to be pushed, or a job withdrawn while on disk), or it left the
// lane since the reading began, which the lane notes while it is read. Taken or not, the entry raises
// high. more is cleared if there were fewer entries than asked for and dirty is still clear.
//
// During a reading high does not move otherwise: more is set, so Push leaves on disk what is behind
// high. A reservation whose entry was skipped is pushed with an order up to high, and so into the
// window. One whose entry was not seen has, by the store's promise, a higher order than all that were
// seen. Either way it ends up in exactly one place.
//
// A turn past the queue has an entry that was never in a window, and may be behind high. A reading does not take it while it is present;
// when it leaves, the lane notes that as for what is cancelled.
//
// A reading that fails changes nothing and is tried again after a back-off, for as long as it takes.
package queue
