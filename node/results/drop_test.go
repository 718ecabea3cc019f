package results_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// However much answers there are to write, which jobs keys became is not dropped for them.
func TestResultsDisplaceNoClaims(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	s.Kill()
	c := config(s.URL(), "a")
	c.MaxBytes = 64 << 10
	n := start(t, c)
	body := strings.Repeat("x", c.MaxBytes)
	done := make([]*job.Job, 600)
	for i := range done {
		done[i] = n.job("u", "done "+strconv.Itoa(i))
		n.Ended(ended(done[i], body), nil)
	}
	if got := n.counted("aquifer_remote_records_total", "dropped"); got < 50 {
		t.Fatalf("%v results were dropped, which shows nothing", got)
	}
	queued := make([]*job.Job, 300)
	for i := range queued {
		queued[i] = n.job("u", "queued "+strconv.Itoa(i))
		n.Stored(queued[i])
	}
	s.Restart()
	for _, j := range queued {
		stands(t, s, entryKey(j), map[string]any{"job_id": j.ID.String(), "status": "queued"})
	}
	for i, j := range done {
		e := stands(t, s, entryKey(j), map[string]any{"job_id": j.ID.String(), "status": "completed"})
		if named := e["result_key"] != nil; named != (s.Get(resultKey(j)) != "") {
			t.Fatalf("job %d names a result: %v, and has one: %v", i, named, !named)
		}
	}
}

// What was dropped is owed: when there is room again, and only then, the node is to tell once more of what is left,
// though Valkey has lost nothing.
func TestDropsAreToldAgain(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	lost := func(want bool) {
		t.Helper()
		valkeytest.Until(t, func() error {
			got, err := n.Lost(t.Context())
			if err == nil && got != want {
				err = errors.New("lost: " + strconv.FormatBool(got))
			}
			return err
		})
	}
	lost(true) // it has told nothing yet
	lost(false)
	s.Pause()
	for i := range 100_000 {
		n.Stored(n.job("u", strconv.Itoa(i)))
	}
	if got := n.counted("aquifer_remote_records_total", "dropped"); got == 0 {
		t.Fatal("nothing was dropped, which shows nothing")
	}
	s.Resume()
	lost(true)
	lost(false)
}
