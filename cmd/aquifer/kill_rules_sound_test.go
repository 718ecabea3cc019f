//go:build crashpoints

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// interrupted is the history of a job whose first attempt and whose delivery were each interrupted by a
// kill after the request had come: as much repetition as there may be.
func interrupted() *history {
	o := &order{id: "id", Submission: client.Submission{UserID: "u", IdempotentKey: "k", Body: []byte("b")}}
	return &history{
		order: o, kills: 2,
		job: client.Job{
			JobID: "id", Status: job.Completed, Webhook: client.Webhook{State: job.WebhookDelivered},
			Result:   &client.Result{ResponseStatus: 200, Body: "b"},
			Attempts: []client.Attempt{{Number: 1, Error: job.CrashedWorker}, {Number: 2, ResponseStatus: 200}},
		},
		calls: []call{
			{life: "1", attempt: 1, keyHash: o.wireHash(), body: "b", status: 200},
			{life: "2", attempt: 2, keyHash: o.wireHash(), body: "b", status: 200},
		},
		deliveries: []call{
			{life: "2", delivery: "d", body: "r", status: 200},
			{life: "3", delivery: "d", body: "r", status: 200},
		},
	}
}

// The rules of the program let pass what may be, and nothing beyond it.
func TestKL01_RulesFindFaults(t *testing.T) {
	if faults := interrupted().faults(); len(faults) != 0 {
		t.Errorf("no more than may be: %q", faults)
	}
	tests := map[string]struct {
		edit func(h *history)
		want string
	}{
		"not acknowledged":        {func(h *history) { h.id = "" }, "never acknowledged"},
		"lost":                    {func(h *history) { h.job = client.Job{} }, "lost"},
		"not ended":               {func(h *history) { h.job.Status = job.Queued }, "ended as queued"},
		"failed":                  {func(h *history) { h.job.Status, h.job.Reason = job.Failed, "crashed_worker" }, "ended as failed"},
		"another answer":          {func(h *history) { h.job.Result.Body = "c" }, "result"},
		"more crashes than kills": {func(h *history) { h.kills = 0 }, "1 attempts crashed in 0 kills"},
		"attempt sent twice":      {func(h *history) { h.calls = append(h.calls, h.calls[0]) }, "attempt 1 is shown as"},
		"attempt never sent":      {func(h *history) { h.calls = h.calls[:1] }, "attempt 2 is shown as"},
		"attempt not counted":     {func(h *history) { h.calls[1].attempt = 3 }, "attempt 3, which is not shown"},
		"attempt not named":       {func(h *history) { h.calls[1].attempt = 0 }, "attempt 0, which is not shown"},
		"attempts out of order":   {func(h *history) { h.job.Attempts[0].Number = 7 }, "attempt 1 is shown as"},
		"another status":          {func(h *history) { h.calls[1].status = 503 }, "attempt 2 shows 200"},
		"another key":             {func(h *history) { h.calls[0].keyHash = "?" }, "called as"},
		"another request body":    {func(h *history) { h.calls[0].body = "c" }, "called as"},
		"another delivery":        {func(h *history) { h.deliveries[1].delivery = "e" }, "delivered as"},
		"another delivery body":   {func(h *history) { h.deliveries[1].body = "s" }, "delivered as"},
		"delivered twice":         {func(h *history) { h.deliveries[1].life = "2" }, "2 deliveries of 2 were taken"},
		"delivered too often":     {func(h *history) { h.kills, h.job.Attempts[0].Error = 0, "" }, "1 extra deliveries in 0 kills"},
		"not delivered":           {func(h *history) { h.deliveries = nil }, "webhook is delivered, taken 0 times"},
		"only refused deliveries": {func(h *history) { h.refuse() }, "webhook is delivered, taken 0 times"},
		"still owed":              {func(h *history) { h.job.Webhook.State = job.WebhookPending }, "webhook is pending"},
		"skipped and not seen":    {func(h *history) { h.job.Webhook.State = job.WebhookSkipped }, "webhook is skipped"},
	}
	for name, tt := range tests {
		h := interrupted()
		tt.edit(h)
		if got := strings.Join(h.faults(), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %q, want %q", name, got, tt.want)
		}
	}
}

func (h *history) refuse() {
	for i := range h.deliveries {
		h.deliveries[i].status = http.StatusServiceUnavailable
	}
}
