package job_test

import (
	"math"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// The attempt past the queue is none of those that max_retries allows, and the waits do not grow by it.
func TestTheAttemptPastTheQueueIsNotCounted(t *testing.T) {
	for _, c := range []struct {
		direct            bool
		maxRetries, tried int
		allowed, retries  int
	}{
		{false, 0, 1, 1, 0}, {false, 4, 5, 5, 4}, {true, 0, 1, 2, 0}, {true, 0, 2, 2, 0}, {true, 4, 3, 6, 1}, {true, -1, 9, math.MaxInt, 7},
	} {
		j, s := job.Job{Direct: true, Request: job.Request{MaxRetries: c.maxRetries}}, job.State{Direct: c.direct, Tried: c.tried}
		if a, r := j.AttemptsAllowed(s), s.Retries(); a != c.allowed || r != c.retries {
			t.Errorf("%+v: %d attempts allowed, %d were retries", c, a, r)
		}
	}
}
