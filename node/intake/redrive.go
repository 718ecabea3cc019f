package intake

import (
	"context"
	"errors"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// Redrive runs an ended job again, as a new job with the same request. Errors are faults as of
// Submit; NotFound and Conflict say that there is no such job or that it has not ended.
func (in *Intake) Redrive(ctx context.Context, id job.ID) (Receipt, error) {
	if err := in.serving(); err != nil {
		return Receipt{}, err
	}
	old, err := in.Store.Get(ctx, id)
	if err != nil {
		return Receipt{}, storeFault(err)
	}
	if status := old.State.Phase(); !status.Ended() {
		return Receipt{}, fault.New(fault.Conflict, "only an ended job can be redriven, %s is %s", id, status)
	}
	request := old.Job.Request
	request.ExecuteBefore = 0 // it bounded the first run
	return in.accept(ctx, Submission{Request: &request}, id)
}

// Redeliver owes the result of an ended job to its webhook again. Errors are faults as of Redrive.
func (in *Intake) Redeliver(ctx context.Context, id job.ID) error {
	if err := in.serving(); err != nil {
		return err
	}
	if _, busy := in.redelivering.LoadOrStore(id, nil); busy {
		return notSettled(id, job.WebhookPending)
	}
	defer in.redelivering.Delete(id)
	s, err := in.Store.Get(ctx, id)
	if err != nil {
		return storeFault(err)
	}
	if state := s.Webhook.Phase(); !state.Settled() {
		return notSettled(id, state)
	}
	return in.owe(ctx, s.Job)
}

// owe puts a settled delivery into its queue again. One that is owed although the store says that this
// failed is made, and the caller is told that it failed.
func (in *Intake) owe(ctx context.Context, j *job.Job) error {
	lane := j.WebhookLane()
	place := in.Deliveries.Reserve(lane, j.ID)
	var entry job.Entry
	var failed error
	err := store.Certain(ctx, in.Store, j.ID,
		func(ctx context.Context) error {
			entry, failed = in.Store.Owe(ctx, j.ID)
			return failed
		},
		func(s job.Snapshot) bool {
			entry = job.Entry{Lane: lane, Order: s.Webhook.Order, ID: j.ID}
			return s.Webhook.Phase() == job.WebhookPending
		})
	if err != nil {
		place.Cancel()
	} else {
		place.Push(entry, nil)
	}
	switch {
	case errors.Is(failed, store.ErrStale):
		return notSettled(j.ID, job.WebhookPending)
	case failed != nil:
		return storeFault(failed)
	}
	return nil
}

func notSettled(id job.ID, state job.WebhookState) error {
	return fault.New(fault.Conflict, "only a settled delivery can be redriven, that of %s is %s", id, state)
}
