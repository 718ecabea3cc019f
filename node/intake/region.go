package intake

import (
	"context"
	"errors"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Region is what nodes that have no cluster in common, or lose sight of it, know together of their keys. What it
// is given it only reads.
type Region interface {
	// Find returns the job that the key of a request became; nil if none is known.
	Find(ctx context.Context, q *job.Request) *Remote
	// Claim claims the key of a job that is about to be stored, and returns nil; or it returns the job that the
	// key became before. Errors are faults. Who has claimed a key says what came of it: Stored or Abandon.
	Claim(ctx context.Context, j *job.Job) (*Remote, error)
	// Stored tells that the job is stored. It does not wait.
	Stored(j *job.Job)
	// Abandon tells that the job was not stored.
	Abandon(ctx context.Context, j *job.Job)
}

// Remote is the job that a key became, as the region knows it.
type Remote struct {
	ID     job.ID
	Status job.Status
	// ResultKey is where the region has what it answered; empty if nowhere.
	ResultKey string
	// Mismatch: it is known to ask for something else than the request.
	Mismatch bool
}

// claim claims the key of a new job in the region. A rerun has no key.
func (in *Intake) claim(ctx context.Context, j *job.Job) (*Remote, error) {
	if in.Region == nil || !j.RedriveOf.IsZero() {
		return nil, nil //nolint:nilnil // nobody else has it
	}
	return in.Region.Claim(ctx, j)
}

// settle says what became of a claim, from what the store has answered. A claim stays, and ends by itself, if the
// store cannot tell any more: the job may be there at the next start. It stays too if another job of this
// node has the key, which has claimed it as well.
func (in *Intake) settle(ctx context.Context, j *job.Job, stored bool, err error) {
	switch {
	case in.Region == nil || !j.RedriveOf.IsZero():
	case stored && !j.DirectOnly: // which is claimed until it is known whether it leaves a trace
		in.Region.Stored(j)
	case !stored && err != nil && !errors.Is(err, store.ErrFailed) && !errors.Is(err, store.ErrClosed):
		in.Region.Abandon(ctx, j)
	}
}

// Void gives the key of a job back in the region that was for a turn past the queue alone and has left no trace.
func (in *Intake) Void(ctx context.Context, j *job.Job) {
	if in.Region != nil {
		in.Region.Abandon(ctx, j)
	}
}

// known answers a request that was refused for want of room, if the region knows its key.
func (in *Intake) known(ctx context.Context, q *job.Request, refused Receipt, why error) (Receipt, error) {
	if in.Region == nil {
		return refused, why
	}
	if r := in.Region.Find(ctx, q); r != nil {
		return in.remote(q, r)
	}
	return refused, why
}

// remote answers with the job that has the key in the region.
func (in *Intake) remote(q *job.Request, r *Remote) (Receipt, error) {
	if r.Mismatch && in.Strict {
		return Receipt{}, taken(q, r.ID)
	}
	return Receipt{ID: r.ID, Status: r.Status, Duplicate: true, PayloadMismatch: r.Mismatch, ResultKey: r.ResultKey}, nil
}

// taken refuses a request whose key belongs to another call.
func taken(q *job.Request, id job.ID) error {
	return fault.New(fault.Mismatch, "idempotent_key %q is taken by job %s, which asks for something else", q.KeyName, id)
}
