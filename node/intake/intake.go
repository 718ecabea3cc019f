// Package intake turns a request into a durable, queued job, exactly once.
//
// A key that is known answers with its job, also when the node refuses new work. New work is
// admitted, reserved, claimed in the region if the node has one, stored and queued in that order; a refusal leaves no trace, and what could not
// be stored is never acknowledged. Intake knows nothing of HTTP.
package intake

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Store is what intake needs of the job store.
type Store interface {
	Insert(ctx context.Context, j *job.Job, d store.Durability) (store.Inserted, error)
	Find(ctx context.Context, key job.KeyHash) (store.Holder, error)
	Get(ctx context.Context, id job.ID) (job.Snapshot, error)
	Owe(ctx context.Context, id job.ID) (job.Entry, error)
}

// Calls is the line that new jobs join. *queue.Queue is one.
type Calls interface {
	// Join counts a job that is about to be stored, and returns the load with it.
	Join(lane job.Lane, id job.ID) (*queue.Place, queue.Load)
	// Direct reserves a turn past the queue, and returns the load with it; nil: there is none now.
	Direct(lane job.Lane, id job.ID) (*queue.Place, queue.Load)
}

// Deliveries is the line of results that are owed. *queue.Queue is one.
type Deliveries interface {
	// Reserve counts a delivery that is about to be owed.
	Reserve(lane job.Lane, id job.ID) *queue.Place
}

// Admission says which new jobs may come. Refusals are faults.
type Admission interface {
	// Admit says whether the node takes a job of so many bytes.
	Admit(bytes int64) error
	// Forgo tells that so many bytes that Admit has let in are not stored after all.
	Forgo(bytes int64)
	// AdmitUser says whether the user of a request may hand in more.
	AdmitUser(r *job.Request) error
	// AdmitDirect says whether a job may have the turn past the queue that it has reserved: all that its target has to do are
	// such turns.
	AdmitDirect(l queue.Load) bool
	// AdmitJoined says whether a job may stay in the queue that it has joined, and how far the target is
	// filled, from 0 to 1.
	AdmitJoined(l queue.Load) (pressure float64, err error)
}

// Load is how full a target's queue is with the job that asks, if it may join.
type Load struct {
	ActiveQueues    int     // lanes of the target with work
	UpstreamBacklog int     // unfinished jobs of the target
	QueueBacklog    int     // unfinished jobs of the lane
	Pressure        float64 // 0..1
}

// without is the load that a job has met which does not join.
func (l Load) without() Load {
	if l.QueueBacklog == 1 {
		l.ActiveQueues--
	}
	l.UpstreamBacklog--
	l.QueueBacklog--
	return l
}

// Config is what an Intake is built from.
type Config struct {
	Store      Store
	Calls      Calls
	Deliveries Deliveries
	Admission  Admission
	// Region is asked whether another node has a key; nil: this node decides alone.
	Region Region
	// Shared says whether the tenants of a target share one queue there; isolate is what the caller asks
	// for. nil: they never do.
	Shared func(target string, isolate bool) bool
	// Draining says whether the node is shutting down.
	Draining func() bool
	// Inserted is told how long the store took for a new job; it may be nil.
	Inserted func(took time.Duration)
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
	full         fullDisk
}

// New returns an intake.
func New(c Config) *Intake { return &Intake{Config: c} }

// Submission is one request with what its caller asked of the node.
type Submission struct {
	Request    *job.Request
	Durability store.Durability
	// Isolate asks for a queue of the tenant's own where tenants share one.
	Isolate bool
	// Direct takes a turn past the queue, if the job can have one at once; nil: it waits in the queue.
	Direct queue.Runner
	// DirectOnly refuses the job if it cannot.
	DirectOnly bool
	// Stored is told of a job when it is stored, before anything else happens to it; nil: nobody is.
	Stored func(id job.ID)
}

// Receipt is what became of a request.
type Receipt struct {
	ID     job.ID
	Status job.Status
	// Duplicate: the key was known, and ID is its job.
	Duplicate bool
	// PayloadMismatch: the known job asks for something else.
	PayloadMismatch bool
	// ResultKey is where the region has what a known job answered; empty if nowhere.
	ResultKey string
	// Durability is what a new job has got.
	Durability store.Durability
	// Direct: the job has its turn, past the queue.
	Direct bool
	// Load is what a new job has met in the queue, also one that was refused because of it; zero for any other.
	Load Load
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
	got, err := in.accept(ctx, s, job.ID{})
	if fault.Is(err, fault.Overloaded) {
		return in.known(ctx, s.Request, got, err)
	}
	return got, err
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
	bytes, stored := size(s.Request), false
	if err := in.Admission.Admit(bytes); err != nil {
		return Receipt{}, err
	}
	defer func() {
		if !stored {
			in.Admission.Forgo(bytes)
		}
	}()
	j, err := in.newJob(s, redriveOf)
	if err != nil {
		return Receipt{}, err
	}
	place, load, err := in.enter(s, j)
	if place != nil {
		defer place.Cancel() // nothing once the job is on its way
	}
	if err != nil {
		return Receipt{Load: load}, err
	}
	if r, err := in.claim(ctx, j); err != nil {
		return Receipt{}, err
	} else if r != nil {
		return in.remote(s.Request, r)
	}
	var done store.Inserted
	done, stored, err = in.insert(ctx, j, s.Durability)
	in.settle(ctx, j, stored, err)
	direct := stored && in.send(s, j, place, done.Entry)
	switch {
	case err != nil:
		return Receipt{}, in.full.note(err)
	case done.Holder != nil:
		return in.duplicate(ctx, s.Request, *done.Holder)
	case j.DirectOnly && !direct:
		in.Void(ctx, j)
		return Receipt{}, ErrNotDirect
	}
	in.full.ends()
	return Receipt{
		ID: j.ID, Status: job.Queued, Durability: done.Durability, Direct: direct, Load: load, RedriveOf: redriveOf,
	}, nil
}

// insert stores a new job and reports whether it is there. An error beside that is of a job that is
// there but may not be as durable as it was to be: it runs, and nobody is told that it was accepted.
func (in *Intake) insert(ctx context.Context, j *job.Job, d store.Durability) (done store.Inserted, stored bool, err error) {
	unsure := store.Certain(ctx, in.Store, j.ID,
		func(ctx context.Context) error {
			began := time.Now()
			if done, err = in.Store.Insert(ctx, j, d); err == nil && done.Holder == nil && in.Inserted != nil {
				in.Inserted(time.Since(began))
			}
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

func (in *Intake) newJob(s Submission, redriveOf job.ID) (*job.Job, error) {
	now, r := time.Now(), s.Request
	id, err := in.IDs.New(now)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "")
	}
	deadline := r.ExecuteBefore
	if deadline == 0 {
		deadline = now.Add(in.QueuedTTL).UnixMilli()
	}
	return &job.Job{
		ID: id, Request: *r, CreatedAt: now.UnixMilli(), Deadline: deadline, RedriveOf: redriveOf,
		Shared: in.Shared != nil && in.Shared(job.TargetOf(r.URL), s.Isolate),
	}, nil
}

// duplicate answers with the job that has the key. One that expires this very moment is no answer:
// the caller is told to come again, when the key is free.
func (in *Intake) duplicate(ctx context.Context, r *job.Request, h store.Holder) (Receipt, error) {
	mismatch := h.Payload != r.Payload()
	if mismatch && in.Strict {
		return Receipt{}, taken(r, h.ID)
	}
	s, err := in.Store.Get(ctx, h.ID)
	if errors.Is(err, store.ErrNotFound) {
		return Receipt{}, &fault.Error{Kind: fault.Unavailable, Detail: "the job of this key is just expiring", RetryAfter: time.Second}
	}
	if err != nil {
		return Receipt{}, storeFault(err)
	}
	if s.Job.DirectOnly && !s.State.Phase().Ended() { // it may leave no trace, so nobody can rely on it
		return Receipt{}, &fault.Error{Kind: fault.Unavailable, Detail: "the job of this key is just being tried", RetryAfter: time.Second}
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
	case errors.Is(err, store.ErrCorrupt): // coming again would not help
		return fault.Wrap(fault.Internal, err, "")
	case errors.Is(err, store.ErrFull):
		return diskFull(err, fullWait)
	}
	return &fault.Error{Kind: fault.Unavailable, Detail: detail, RetryAfter: 5 * time.Second, Err: err}
}
