// Package intake turns a request into a durable, queued job, exactly once.
//
// A key that is known answers with its job, also when the node refuses new work. New work is
// admitted, reserved, stored and queued in that order; a refusal leaves no trace, and what could not
// be stored is never acknowledged. Intake knows nothing of HTTP.
package intake

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what intake needs of the job store.
type Store interface {
	Insert(ctx context.Context, j *job.Job, d store.Durability) (store.Inserted, error)
	Find(ctx context.Context, key job.KeyHash) (store.Holder, error)
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	Owe(ctx context.Context, id job.ID) (job.Entry, error)
}

// Queue is a line of work that a job joins.
type Queue interface {
	// Reserve counts a job that is about to be stored.
	Reserve(lane job.Lane, id job.ID) (Place, Load)
}

// Place is a job's reservation; either method ends it.
type Place interface {
	// Push queues the job, which is stored now. held is its snapshot if it is at hand.
	Push(e job.Entry, held *job.Snapshot)
	// Cancel forgets the job, which was not stored.
	Cancel()
}

// Load is how full a target's queue is with the job that asks.
type Load struct {
	ActiveQueues    int     // lanes of the target with work
	UpstreamBacklog int     // unfinished jobs of the target
	QueueBacklog    int     // unfinished jobs of the lane
	Pressure        float64 // 0..1
}

// Config is what an Intake is built from.
type Config struct {
	Store      Store
	Calls      Queue
	Deliveries Queue
	// Admit says whether the node takes a new job of so many bytes now; a refusal is a fault.
	Admit func(bytes int64) error
	// Draining says whether the node is shutting down.
	Draining func() bool
	// Wake is told when something new comes due.
	Wake func(at time.Time)
	IDs  job.IDs
	// QueuedTTL is how long a job without execute_before may wait.
	QueuedTTL time.Duration
	// Strict refuses a known key whose payload differs.
	Strict bool
}

// Intake accepts jobs. It is safe for concurrent use.
type Intake struct {
	Config
	// redelivering has the ids of the jobs whose delivery is just being owed again: the queue takes
	// a job from one caller at a time.
	redelivering sync.Map
}

// New returns an intake.
func New(c Config) *Intake { return &Intake{Config: c} }

// Submission is one request with what its caller asked of the node.
type Submission struct {
	Request    *job.Request
	Durability store.Durability
}

// Receipt is what became of a request.
type Receipt struct {
	ID     job.ID
	Status job.Status
	// Duplicate: the key was known, and ID is its job.
	Duplicate bool
	// PayloadMismatch: the known job asks for something else.
	PayloadMismatch bool
	// Durability is what a new job has got.
	Durability store.Durability
	Load       Load
	// RedriveOf is the job that this one runs again; zero for a first run.
	RedriveOf job.ID
}

// Submit accepts a request, or finds the job that has its key. Errors are faults: Draining,
// Overloaded, Mismatch (a strict node, another payload), Unavailable (nothing can be stored now).
func (in *Intake) Submit(ctx context.Context, s Submission) (Receipt, error) {
	if err := in.serving(); err != nil {
		return Receipt{}, err
	}
	holder, err := in.Store.Find(ctx, s.Request.Key().Hash())
	switch {
	case err == nil:
		return in.duplicate(ctx, s.Request, holder)
	case !errors.Is(err, store.ErrNotFound):
		return Receipt{}, storeFault(err)
	}
	return in.accept(ctx, s, job.ID{})
}

// serving refuses work when the node shuts down.
func (in *Intake) serving() error {
	if in.Draining() {
		return fault.New(fault.Draining, "the node is draining")
	}
	return nil
}

// accept stores and queues a new job.
func (in *Intake) accept(ctx context.Context, s Submission, redriveOf job.ID) (Receipt, error) {
	if err := in.Admit(size(s.Request)); err != nil {
		return Receipt{}, err
	}
	j, err := in.newJob(s.Request, redriveOf)
	if err != nil {
		return Receipt{}, err
	}
	place, load := in.Calls.Reserve(j.Lane(), j.ID)
	defer place.Cancel() // nothing once the job is pushed
	done, stored, err := in.insert(ctx, j, s.Durability)
	if stored {
		crashpoint.Reach(crashpoint.Stored)
		place.Push(done.Entry, &job.Snapshot{Job: j})
		in.Wake(time.UnixMilli(j.Deadline))
	}
	switch {
	case err != nil:
		return Receipt{}, storeFault(err)
	case done.Holder != nil:
		return in.duplicate(ctx, s.Request, *done.Holder)
	}
	return Receipt{
		ID: j.ID, Status: job.Queued, Durability: done.Durability, Load: load, RedriveOf: redriveOf,
	}, nil
}

// insert stores a new job and reports whether it is there. An error beside that is of a job that is
// there but may not be as durable as it was to be: it runs, and nobody is told that it was accepted.
func (in *Intake) insert(ctx context.Context, j *job.Job, d store.Durability) (done store.Inserted, stored bool, err error) {
	unsure := store.Certain(ctx, in.Store, j.ID,
		func(ctx context.Context) error {
			done, err = in.Store.Insert(ctx, j, d)
			return err
		},
		func(s job.Snapshot) bool {
			done.Entry = job.Entry{Lane: j.Lane(), Order: s.State.Order, ID: j.ID}
			return true
		})
	return done, unsure == nil && done.Holder == nil, err
}

// size is about how many bytes the record of a request has.
func size(r *job.Request) int64 {
	n := 256 + len(r.URL) + len(r.WebhookURL) + len(r.Body)
	for _, h := range r.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return int64(n)
}

func (in *Intake) newJob(r *job.Request, redriveOf job.ID) (*job.Job, error) {
	now := time.Now()
	id, err := in.IDs.New(now)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "")
	}
	deadline := r.ExecuteBefore
	if deadline == 0 {
		deadline = now.Add(in.QueuedTTL).UnixMilli()
	}
	return &job.Job{ID: id, Request: *r, CreatedAt: now.UnixMilli(), Deadline: deadline, RedriveOf: redriveOf}, nil
}

// duplicate answers with the job that has the key. One that expires this very moment is no answer:
// the caller is told to come again, when the key is free.
func (in *Intake) duplicate(ctx context.Context, r *job.Request, h store.Holder) (Receipt, error) {
	mismatch := h.Payload != r.Payload()
	if mismatch && in.Strict {
		return Receipt{}, fault.New(fault.Mismatch, "idempotent_key %q is taken by job %s, which asks for something else", r.KeyName, h.ID)
	}
	s, err := in.Store.Get(ctx, h.ID)
	if errors.Is(err, store.ErrNotFound) {
		return Receipt{}, &fault.Error{Kind: fault.Unavailable, Detail: "the job of this key is just expiring", RetryAfter: time.Second}
	}
	if err != nil {
		return Receipt{}, storeFault(err)
	}
	return Receipt{ID: h.ID, Status: s.State.Phase(), Duplicate: true, PayloadMismatch: mismatch}, nil
}

// storeFault says that the store cannot do its part, in words for the caller.
func storeFault(err error) error {
	detail := "the store cannot take the job now"
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fault.New(fault.NotFound, "job not found")
	case errors.Is(err, store.ErrClosed):
		return fault.Wrap(fault.Draining, err, "the node is draining")
	case errors.Is(err, store.ErrFull):
		detail = "the disk is full"
	}
	return &fault.Error{Kind: fault.Unavailable, Detail: detail, RetryAfter: 5 * time.Second, Err: err}
}
