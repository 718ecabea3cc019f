package webhook

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// The bodies of a delivery. Fields stand in the order of their keys, which is how they are written.
type (
	completed struct {
		job.Shown
		JobID          string     `json:"job_id"`
		ResponseStatus int        `json:"response_status"`
		Status         job.Status `json:"status"`
	}
	failed struct {
		job.Shown
		JobID          string     `json:"job_id"`
		Reason         string     `json:"reason"`
		ResponseStatus int        `json:"response_status"`
		Status         job.Status `json:"status"`
	}
	dropped struct {
		JobID  string     `json:"job_id"`
		Reason string     `json:"reason"`
		Status job.Status `json:"status"`
	}
)

// Body returns the body that delivers the result of an ended job: JSON on one line. payload is the
// whole body of the answer if the one in s is cut, nil if there is no other. The same arguments give
// the same bytes.
func Body(s job.Snapshot, payload []byte) ([]byte, error) {
	b, err := json.Marshal(message(s, payload),
		jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("body of a delivery: %w", err)
	}
	return b, nil
}

func message(s job.Snapshot, payload []byte) any {
	id, phase, status := s.Job.ID.String(), s.State.Phase(), s.State.ResponseStatus()
	switch {
	case phase == job.Completed:
		return completed{Shown: s.State.Result.Show(payload), JobID: id, ResponseStatus: status, Status: phase}
	case s.State.Dropped():
		return dropped{JobID: id, Reason: s.State.Reason, Status: phase}
	default:
		return failed{
			Shown: s.State.Result.Show(payload), JobID: id, Reason: s.State.Reason, ResponseStatus: status, Status: phase,
		}
	}
}
