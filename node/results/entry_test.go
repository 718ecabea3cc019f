package results

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// FuzzJudge: an entry may say anything; what counts as a job has an id and a status.
func FuzzJudge(f *testing.F) {
	f.Add(`{"job_id":"0123456789abcdef0123456789abcdef","status":"completed","result_key":"x"}`)
	f.Add(`{"claim":"0123456789abcdef0123456789abcdef","user":"x"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		h, wait := new(Region).judge(text, job.Key{UserID: "u", Name: "k"})
		if h != nil && (wait || h.Status == "") {
			t.Errorf("got %+v, %v", h, wait)
		}
	})
}
