package api

import (
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// idOf is the job that a path names. What is no id names no job.
func idOf(r *http.Request) (job.ID, error) {
	id, err := job.ParseID(r.PathValue("id"))
	if err != nil {
		return id, fault.New(fault.NotFound, "job not found")
	}
	return id, nil
}

// redrive runs an ended job again, as a new one.
func (f look) redrive(w http.ResponseWriter, r *http.Request) int {
	if err := f.drainingFault(); err != nil {
		return f.fail(w, r, err)
	}
	id, err := idOf(r)
	if err != nil {
		return f.fail(w, r, err)
	}
	got, err := f.Intake.Redrive(r.Context(), id)
	if err != nil {
		setLoad(w.Header(), got.Load)
		return f.elsewhere(w, r, id, err)
	}
	return f.accepted(w, r, got)
}

// redelivery is the answer to a delivery that is owed again.
type redelivery struct {
	JobID   string `json:"job_id"`
	Webhook struct {
		State job.WebhookState `json:"state"`
	} `json:"webhook"`
}

// redeliver owes the result of an ended job to its webhook again.
func (f look) redeliver(w http.ResponseWriter, r *http.Request) int {
	if err := f.drainingFault(); err != nil {
		return f.fail(w, r, err)
	}
	id, err := idOf(r)
	if err != nil {
		return f.fail(w, r, err)
	}
	if err := f.Intake.Redeliver(r.Context(), id); err != nil {
		return f.elsewhere(w, r, id, err)
	}
	body := redelivery{JobID: id.String()}
	body.Webhook.State = job.WebhookPending
	return writeJSON(w, http.StatusAccepted, body)
}
