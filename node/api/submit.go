package api

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"

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
	ResultKey       string     `json:"result_key,omitempty"`
	RedriveOf       string     `json:"redrive_of,omitempty"`
	// Result is what a call that was known and has ended answered.
	Result *resultView `json:"result,omitempty"`
}

func receiptOf(got intake.Receipt) receipt {
	return receipt{
		JobID: got.ID.String(), Status: got.Status, Duplicate: got.Duplicate, PayloadMismatch: got.PayloadMismatch, ResultKey: got.ResultKey,
	}
}

// submit takes a job, or has the owner of it do so.
func (f *face) submit(w http.ResponseWriter, r *http.Request) int {
	s, status := f.receive(w, r)
	if status != 0 {
		return status
	}
	s.DirectOnly = false // it is for calls that wait for their answer
	got, err := f.Intake.Submit(r.Context(), s)
	if err != nil {
		setLoad(w.Header(), got.Load)
		return f.fail(w, r, err)
	}
	return f.accepted(w, r, got)
}

// receive reads a request that this node is to take. It returns the status of the answer if there is one already: the request
// was refused, or the owner has taken it.
func (f *face) receive(w http.ResponseWriter, r *http.Request) (s intake.Submission, status int) {
	body := f.buffer()
	defer f.release(body)
	s, err := f.submission(w, r, body)
	if err != nil {
		return s, f.fail(w, r, err)
	}
	if f.Cluster != nil {
		if status := f.Cluster.ToOwner(w, r, s.Request, *body); status != 0 {
			return s, status
		}
	}
	if err := f.drainingFault(); err != nil {
		return s, f.fail(w, r, err)
	}
	return s, 0
}

// submission reads a request into body, and checks it.
func (f *face) submission(w http.ResponseWriter, r *http.Request, body *[]byte) (s intake.Submission, err error) {
	draft, err := f.draft(w, r, body)
	if err != nil {
		return s, err
	}
	if f.Advertise != nil {
		setBoth(w.Header(), aqueduct+"Rps", aquifer+"Rps", f.Advertise(draft.UserID()))
	}
	if s.Durability, err = durability(r.Header); err != nil {
		return s, err
	}
	s.Isolate = isolate(r.Header)
	if f.Cluster == nil { // in a cluster another node may take the job
		if err = f.drainingFault(); err != nil {
			return s, err
		}
	}
	if s.DirectOnly, err = f.directOnly(r, draft, body); err != nil {
		return s, err
	}
	s.Request, err = draft.Request(f.Rules)
	return s, err
}

// directOnly reports whether a draft asks for that and may. If it may not, it is taken out of the body: another node, to
// which this one vouches for the body, would believe it.
func (f *face) directOnly(r *http.Request, draft *job.Draft, body *[]byte) (bool, error) {
	if !draft.DirectOnly() || f.Internal == nil || f.Internal(r) {
		return draft.DirectOnly(), nil
	}
	rest, err := job.WithoutDirectOnly(*body)
	if err == nil {
		*body = append((*body)[:0], rest...) // it fits: its memory is what was reserved
	}
	return false, err
}

// draft reads a request without judging it.
func (f *face) draft(w http.ResponseWriter, r *http.Request, body *[]byte) (*job.Draft, error) {
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

// isolate reports whether the caller asks for a queue of its own. Anything else that the header may say asks
// for nothing.
func isolate(h http.Header) bool {
	v := strings.TrimSpace(either(h, aqueduct+"Account-Queue", aquifer+"Account-Queue"))
	return strings.EqualFold(v, "enabled") || strings.EqualFold(v, "true")
}

// accepted answers with what became of a request.
func (f *face) accepted(w http.ResponseWriter, r *http.Request, got intake.Receipt) int {
	body := receiptOf(got)
	h := w.Header()
	setDurability(h, got.Durability)
	if got.Duplicate {
		f.Logger.LogAttrs(r.Context(), slog.LevelDebug, "key is known", slog.String("job_id", body.JobID))
		return writeJSON(w, http.StatusOK, body)
	}
	if !got.RedriveOf.IsZero() {
		body.RedriveOf = got.RedriveOf.String()
	}
	setLoad(h, got.Load)
	f.Logger.LogAttrs(r.Context(), slog.LevelDebug, "job accepted", slog.String("job_id", body.JobID))
	return writeJSON(w, http.StatusCreated, body)
}

// setDurability tells what an acknowledgement promises.
func setDurability(h http.Header, d store.Durability) {
	if d != store.Default {
		setBoth(h, aqueduct+"Durability", aquifer+"Durability", d.String())
	}
}

// setLoad tells the caller how full the target's queue is, if the job has got as far.
func setLoad(h http.Header, l intake.Load) {
	if l != (intake.Load{}) {
		writeLoad(h, l)
	}
}

// writeLoad tells the load also if it is nothing. All values share one array.
func writeLoad(h http.Header, l intake.Load) {
	values := []string{
		strconv.Itoa(l.ActiveQueues), strconv.Itoa(l.UpstreamBacklog), strconv.Itoa(l.QueueBacklog),
		strconv.FormatFloat(l.Pressure, 'f', 3, 64),
	}
	for i, names := range [...][2]string{
		{aqueduct + "Active-Queues", aquifer + "Active-Queues"},
		{aqueduct + "Upstream-Backlog", aquifer + "Upstream-Backlog"},
		{aqueduct + "Queue-Backlog", aquifer + "Queue-Backlog"},
		{aqueduct + "Admission-Pressure", aquifer + "Admission-Pressure"},
	} {
		value := values[i : i+1 : i+1]
		h[names[0]], h[names[1]] = value, value
	}
}
