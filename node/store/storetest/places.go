package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// checkPlaces fails the test unless every job that was added stands where it must.
func (h *harness) checkPlaces() {
	h.t.Helper()
	if err := CheckPlaces(h.ctx, h.s, h.ids); err != nil {
		h.t.Errorf("places: %v", err)
	}
}

// CheckPlaces returns an error unless each of the jobs stands in exactly one place as long as it is
// unfinished, each owed delivery as well, and nothing else stands anywhere. Jobs that the store no longer
// has, or has offered, must stand nowhere.
func CheckPlaces(ctx context.Context, s store.Store, ids []job.ID) error {
	calls, deliveries, err := places(ctx, s)
	if err != nil {
		return err
	}
	offered := make(map[job.ID]bool)
	for x, err := range s.Offers(ctx) {
		if err != nil {
			return err
		}
		offered[x.Job.ID] = true
	}
	var wrong []error
	for _, id := range ids {
		wantCall, wantDelivery := 0, 0
		switch snapshot, err := s.Get(ctx, id); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case offered[id]:
		case !snapshot.State.Phase().Ended():
			wantCall = 1
		case snapshot.Webhook.Phase() == job.WebhookPending:
			wantDelivery = 1
		}
		if calls[id] != wantCall || deliveries[id] != wantDelivery {
			wrong = append(wrong, fmt.Errorf("job %s stands in %d call places and %d delivery places, want %d and %d",
				id, calls[id], deliveries[id], wantCall, wantDelivery))
		}
		delete(calls, id)
		delete(deliveries, id)
	}
	if len(calls)+len(deliveries) > 0 {
		wrong = append(wrong, fmt.Errorf("unknown jobs stand in places: %v and %v", calls, deliveries))
	}
	return errors.Join(wrong...)
}

// places counts where each job stands.
func places(ctx context.Context, s store.Store) (calls, deliveries map[job.ID]int, err error) {
	calls, deliveries = make(map[job.ID]int), make(map[job.ID]int)
	count := map[job.Line]map[job.ID]int{job.Calls: calls, job.Deliveries: deliveries}
	for line, n := range count {
		var last job.Entry
		for e, err := range s.Waiting(ctx, line) {
			if err != nil {
				return nil, nil, err
			}
			if e.Lane == last.Lane && e.Order <= last.Order {
				return nil, nil, fmt.Errorf("lane %v is out of order", e.Lane)
			}
			last = e
			n[e.ID]++
		}
	}
	for d, err := range s.Pending(ctx) {
		if err != nil {
			return nil, nil, err
		}
		switch d.Kind {
		case store.DueCall:
			calls[d.ID]++
		case store.DueDelivery:
			deliveries[d.ID]++
		default:
			return nil, nil, fmt.Errorf("pending work of kind %d", d.Kind)
		}
	}
	return calls, deliveries, nil
}
