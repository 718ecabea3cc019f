package webhook_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/webhook"
)

// Of a job that leaves no trace nobody is told, also if the process died before that was settled.
func TestNothingIsDeliveredOfAVoidJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ended(job.Failed, "upstream returned 503", nil)
		s.Job.DirectOnly = true
		r := newRig(s, answer(200))
		failures := 2
		r.store.fail = func(method string) error {
			if method == "settle" && failures > 0 {
				failures--
				return errors.New("disk on fire")
			}
			return nil
		}
		if o, _ := r.turn(t.Context()); o != webhook.Settled || r.store.job.Webhook != (job.Webhook{State: job.WebhookSkipped}) {
			t.Errorf("outcome %v, %+v", o, r.store.job.Webhook)
		}
		if len(r.receiver.calls) != 0 || len(r.released) != 1 {
			t.Errorf("%d calls, released %v", len(r.receiver.calls), r.released)
		}
		s = ended(job.Completed, "", nil)
		s.Job.DirectOnly = true
		r = newRig(s, answer(200))
		if o, _ := r.turn(t.Context()); o != webhook.Settled || len(r.receiver.calls) != 1 {
			t.Errorf("of one that completed: outcome %v, %d calls", o, len(r.receiver.calls))
		}
	})
}
