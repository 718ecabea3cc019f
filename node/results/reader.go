package results

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Reader finds what the job of a key answered: in the region, else among this node's own jobs.
type Reader struct {
	// Region may be nil.
	Region *Region
	// Local returns the job that has a key here, ended or not; false if there is none. It may be nil.
	Local func(ctx context.Context, key job.Key) (job.Snapshot, bool, error)
	// MaxBytes is how much of a body is shown of this node's own jobs.
	MaxBytes int
}

// Result returns the JSON of what the job of a key answered. The error is a fault: NotFound if the job has
// not ended, is unknown or expired, Unavailable if that cannot be told now; or an error of Local.
func (r Reader) Result(ctx context.Context, key job.Key) (string, error) {
	text, remote := r.Region.result(ctx, key)
	if text != "" {
		return text, nil
	}
	if r.Local != nil {
		s, ok, err := r.Local(ctx, key)
		if err != nil {
			return "", err
		}
		if ok && s.State.Phase().Ended() {
			return Snapshot(s, nil, r.MaxBytes), nil
		}
	}
	if remote != nil {
		return "", &fault.Error{Kind: fault.Unavailable, Detail: "the results of other nodes cannot be read now", RetryAfter: time.Second, Err: remote}
	}
	return "", fault.New(fault.NotFound, "job result not found")
}

// result returns what stands in the region; empty if there is nothing for this key.
func (r *Region) result(ctx context.Context, key job.Key) (string, error) {
	if r == nil || !r.cfg.Results {
		return "", nil
	}
	text, err := r.get(ctx, r.resultKey(key))
	if err != nil || text == "" {
		return "", err
	}
	if !isResult(text, key) {
		return "", nil
	}
	return text, nil
}

// isResult reports whether a text is what an ended job of the key answered: others may write to Valkey too.
func isResult(text string, key job.Key) bool {
	var head struct {
		JobID  string     `json:"job_id"`
		Status job.Status `json:"status"`
		User   string     `json:"user"`
	}
	if json.Unmarshal([]byte(text), &head) != nil {
		return false
	}
	_, err := job.ParseID(head.JobID)
	return err == nil && head.Status.Ended() && of(head.User, key)
}
