package api

import (
	"net/http"
	"strconv"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// receipt is the answer to work that was taken.
type receipt struct {
	JobID           string     `json:"job_id"`
	Status          job.Status `json:"status"`
	Duplicate       bool       `json:"duplicate,omitempty"`
	PayloadMismatch bool       `json:"payload_mismatch,omitempty"`
	RedriveOf       string     `json:"redrive_of,omitempty"`
}

// submit takes a job.
func (f *face) submit(w http.ResponseWriter, r *http.Request) int {
	s, err := f.submission(w, r)
	if err != nil {
		return f.fail(w, r, err)
	}
	got, err := f.Intake.Submit(r.Context(), s)
	if err != nil {
		return f.fail(w, r, err)
	}
	return accepted(w, got)
}

// submission reads and checks a request.
func (f *face) submission(w http.ResponseWriter, r *http.Request) (s intake.Submission, err error) {
	draft, err := f.draft(w, r)
	if err != nil {
		return s, err
	}
	if s.Durability, err = durability(r.Header); err != nil {
		return s, err
	}
	if err = f.drainingFault(); err != nil {
		return s, err
	}
	s.Request, err = draft.Request(f.Rules)
	return s, err
}

// draft reads a request without judging it.
func (f *face) draft(w http.ResponseWriter, r *http.Request) (*job.Draft, error) {
	body := f.buffer()
	defer f.release(body)
	if err := f.readBody(w, r, body); err != nil {
		return nil, err
	}
	return job.Parse(*body, job.Hints{
		MaxRetries:     either(r.Header, aqueduct+"Max-Retries", aquifer+"Max-Retries"),
		IdempotencyKey: r.Header.Get("Idempotency-Key"),
	})
}

// durability is what the caller wants an acknowledgement to promise.
func durability(h http.Header) (store.Durability, error) {
	switch v := either(h, aqueduct+"Durability", aquifer+"Durability"); v {
	case "":
		return store.Default, nil
	case "flush":
		return store.Flush, nil
	case "sync":
		return store.Sync, nil
	default:
		return 0, fault.New(fault.Invalid, `X-Aqueduct-Durability must be "sync" or "flush", got %q`, v)
	}
}

// accepted answers with what became of a request.
func accepted(w http.ResponseWriter, got intake.Receipt) int {
	body := receipt{JobID: got.ID.String(), Status: got.Status, Duplicate: got.Duplicate, PayloadMismatch: got.PayloadMismatch}
	h := w.Header()
	if got.Durability != store.Default {
		setBoth(h, aqueduct+"Durability", aquifer+"Durability", got.Durability.String())
	}
	if got.Duplicate {
		return writeJSON(w, http.StatusOK, body)
	}
	if !got.RedriveOf.IsZero() {
		body.RedriveOf = got.RedriveOf.String()
	}
	setLoad(h, got.Load)
	return writeJSON(w, http.StatusCreated, body)
}

// setLoad tells the caller how full the target's queue is.
func setLoad(h http.Header, l intake.Load) {
	setBoth(h, aqueduct+"Active-Queues", aquifer+"Active-Queues", strconv.Itoa(l.ActiveQueues))
	setBoth(h, aqueduct+"Upstream-Backlog", aquifer+"Upstream-Backlog", strconv.Itoa(l.UpstreamBacklog))
	setBoth(h, aqueduct+"Queue-Backlog", aquifer+"Queue-Backlog", strconv.Itoa(l.QueueBacklog))
	setBoth(h, aqueduct+"Admission-Pressure", aquifer+"Admission-Pressure", strconv.FormatFloat(l.Pressure, 'f', 3, 64))
}
