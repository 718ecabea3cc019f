// Package store is the contract of durable job storage.
//
// A store keeps jobs, their states, the lanes they wait in, what is due and what is owed to
// webhooks. Each method that changes something is one atomic step: after a crash it has happened
// whole or not at all. What was acknowledged survives the death of the process, and a job also a power cut as
// far as its Durability says. It decides nothing: which transition is right is the business of the
// caller, and package job has the rules.
//
// Every unfinished job stands in exactly one place: in its lane (waiting there, or being sent), among
// what is due (waiting for a retry), or among what is offered to another node. The same holds for every
// owed delivery. So whatever happens to a process, the next one finds all work by reading these places.
package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Errors of a store beside those of the disk.
var (
	// ErrNotFound: no such job, or it has expired.
	ErrNotFound = errors.New("store: job not found")
	// ErrStale: the transition names an attempt that is not open, or the job has ended. Nothing
	// was changed.
	ErrStale = errors.New("store: transition is stale")
	// ErrClosed: the store is closed or closing; the change may or may not have been made.
	ErrClosed = errors.New("store: closed")
	// ErrFull: the disk has no room. Nothing was changed, unless the error is also that of an ended
	// context: then the change may still happen.
	ErrFull = errors.New("store: disk full")
	// ErrFailed: a write has failed in a way that the store does not survive. It takes no more changes
	// until it is opened again, and what was acknowledged is then still there. What a read shows of a
	// change that returned this may not be on disk.
	ErrFailed = errors.New("store: failed")
	// ErrCorrupt: a record cannot be read, and trying again does not help. Nothing was changed. The text
	// says which record. Reads that pass over many jobs leave such a job out, log it, and keep it.
	ErrCorrupt = errors.New("store: unreadable record")
	// ErrVersion: the data was written by a newer version of this program.
	ErrVersion = errors.New("store: unknown format version")
)

// Durability is what an acknowledgement promises.
type Durability uint8

const (
	// Default leaves it to the store's configuration.
	Default Durability = iota
	// Flush: the change survives the death of the process; a power cut may take what the sync lag
	// shows.
	Flush
	// Sync: the change is on disk.
	Sync
)

// String returns the durability's name on the wire.
func (d Durability) String() string {
	switch d {
	case Flush:
		return "flush"
	case Sync:
		return "sync"
	default:
		return "default"
	}
}

// Store is durable job storage. It is safe for concurrent use. Every method returns ErrClosed once
// the store closes; one that waits returns when ctx ends, and the change may then still happen.
type Store interface {
	Jobs
	Transitions
	Lanes
	Overrides
	Ledger
	HandOff
	Upkeep
}

// Jobs is finding and adding jobs.
type Jobs interface {
	// Insert adds a job at the tail of its lane, unless its key is taken: then it changes nothing and
	// returns who has it. Of concurrent calls with one key exactly one adds. A job with RedriveOf
	// claims no key. Insert returns once the job is as durable as d says, and a job that has the key is
	// too. On a full disk it returns ErrFull at once, while all other changes go on as long as they can.
	Insert(ctx context.Context, j *job.Job, d Durability) (Inserted, error)
	// Find returns who has a key, or ErrNotFound.
	Find(ctx context.Context, key job.KeyHash) (Holder, error)
	// Get returns all about a job, or ErrNotFound.
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	// Payload returns the whole body of the answer that an unsettled delivery owes, which Get may
	// return cut; else what Get returns.
	Payload(ctx context.Context, id job.ID) ([]byte, error)
	// List returns jobs from the newest to the oldest.
	List(ctx context.Context, q Query) (Page, error)
}

// Inserted is what became of an Insert.
type Inserted struct {
	// Entry is the new job's place; zero if the key was taken.
	Entry job.Entry
	// Holder is the job that has the key, if it was taken; else nil.
	Holder *Holder
	// Durability is what the job has got, Flush or Sync.
	Durability Durability
}

// Holder is the job that has an idempotency key.
type Holder struct {
	ID      job.ID
	Payload job.PayloadHash
}

// Query selects jobs to list. Zero fields select everything.
type Query struct {
	UserID  string
	Status  job.Status
	Target  string           // host[:port] as in the URL
	Webhook job.WebhookState // state of the delivery
	Limit   int              // at most so many; must be positive
	Before  job.ID           // only jobs older than this one: the cursor
}

// Page is a part of a list.
type Page struct {
	Jobs []job.Snapshot
	// Next is the Before of the next page; zero at the end. A page may be short, or even empty, and
	// still have a Next: a store looks at a bounded number of jobs per call, and reads a bounded amount of
	// their bodies.
	Next job.ID
}

// Transitions moves a job from state to state. In each, next is the whole new state as package job
// computes it.
//
// A transition survives the death of the process. Finish and Owe, of which somebody is told, are as durable as the
// configuration says. A power cut may take the others in any configuration, as far as SyncLag shows: the work is
// then done again, under the same ids.
//
// Begin opens an attempt, Retry and Finish close it; either returns ErrStale when the attempt it
// names (next.Tried) is not the open one. Finish without an open attempt ends a job that waits.
type Transitions interface {
	// Begin records that attempt next.Tried of the job starts, and next.Direct. The record survives the death of the
	// process: an attempt that was not counted could kill every process that makes it.
	Begin(ctx context.Context, e job.Entry, next job.State, startedAt time.Time) error
	// Retry takes the job out of its lane until next.DueAt.
	Retry(ctx context.Context, e job.Entry, next job.State) error
	// Finish ends the job, takes it from the place where it waits, and in the same step owes its
	// delivery. payload is the whole body of the answer if next.Result has it cut, else nil.
	// It returns the delivery's place. Next.ExpiresAt is how long the job is then kept.
	Finish(ctx context.Context, f Finish) (job.Entry, error)
	// Record rewrites the state of a job without moving it, and closes the open attempt if that stands in
	// next.Attempts: for late answers, and for attempts that the last process did not survive.
	Record(ctx context.Context, id job.ID, next job.State) error

	// Postpone takes an owed delivery out of its lane until next.DueAt.
	Postpone(ctx context.Context, e job.Entry, next job.Webhook) error
	// Settle ends a delivery, wherever it waits, and drops its payload, except that of a delivery that
	// did not come through: it may be owed again.
	Settle(ctx context.Context, id job.ID, next job.Webhook) error
	// Owe puts the settled delivery of a finished job at the tail of its lane again, as if it had not
	// been tried. ErrStale if it is not settled.
	Owe(ctx context.Context, id job.ID) (job.Entry, error)
}

// Finish is the end of a job.
type Finish struct {
	Job     *job.Job
	Next    job.State
	Payload []byte // see Transitions.Finish
}

// Lanes is reading where work waits. Entries become visible in the order of their Order, over all
// lanes: who sees one sees all earlier ones, except those that HandOff.Keep puts back.
type Lanes interface {
	// Lane returns up to limit entries of one lane behind after, in order.
	Lane(ctx context.Context, line job.Line, lane job.Lane, after job.Order, limit int) ([]job.Entry, error)
	// Ahead counts the entries of a lane that are between the orders after and before, both
	// exclusive, up to limit.
	Ahead(ctx context.Context, line job.Line, lane job.Lane, after, before job.Order, limit int) (int, error)
	// Waiting iterates over all entries of a line, lane after lane, in order within each.
	Waiting(ctx context.Context, line job.Line) iter.Seq2[job.Entry, error]
	// Due returns up to limit things that are due at now, the longest overdue first, and when the
	// first thing after them is due; zero time if that is not within DueHorizon. The deadline of a job
	// that is being sent is not due: its attempt decides.
	Due(ctx context.Context, now time.Time, limit int) ([]Due, time.Time, error)
	// Pending iterates over the calls and deliveries among what is due, whenever it is.
	Pending(ctx context.Context) iter.Seq2[Due, error]
	// Requeue moves due work to the tail of its lane. ErrStale if it is no longer among what is due.
	Requeue(ctx context.Context, d Due) (job.Entry, error)
}

// DueHorizon is how far Due looks ahead. Deadlines lie far ahead and mostly go when their jobs end, so
// looking for the next one however far it is would pass over all that have gone.
const DueHorizon = time.Hour

// DueKind says what is due.
type DueKind uint8

const (
	// DueCall: the next attempt of a job.
	DueCall DueKind = 1
	// DueDelivery: the next attempt of a delivery.
	DueDelivery DueKind = 2
	// DueDeadline: the deadline of a job that waits.
	DueDeadline DueKind = 3
)

// Due is one thing that comes due.
type Due struct {
	At   int64 // Unix ms
	Kind DueKind
	ID   job.ID
	Lane job.Lane // where the work belongs
}

// Upkeep is what a store needs and tells over time.
type Upkeep interface {
	// Interrupted returns the attempts that were open when the last process ended, and leaves them
	// open until Retry or Finish.
	Interrupted(ctx context.Context) ([]Interrupted, error)
	// Expire removes ended jobs whose State.ExpiresAt is over, up to limit, and returns how many there
	// were; call it again at once when it returns limit. A job whose delivery is not settled is kept
	// until it is. Reads do not show an expired job, removed or not.
	Expire(ctx context.Context, now time.Time, limit int) (int, error)
	// Usage returns the store's readings. It is cheap.
	Usage() Usage
	// Sync makes everything acknowledged so far durable.
	Sync(ctx context.Context) error
	// Close syncs and closes. Whoever waits is answered.
	Close() error
}

// Interrupted is an attempt that its process did not survive.
type Interrupted struct {
	Entry     job.Entry
	Attempt   int
	StartedAt int64 // Unix ms
}

// Usage is how much a store uses and how far behind it is.
type Usage struct {
	Bytes int64 // size on disk
	// SyncLag is how long the oldest acknowledged change has been waiting for the disk.
	SyncLag time.Duration
	// DiskLag is the part of it that the disk is to blame for, and not that the process was stopped for a while.
	DiskLag time.Duration
}
