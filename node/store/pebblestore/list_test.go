package pebblestore_test

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// TestListLargeJobs: a page holds few megabytes, whatever its limit is, and no job is left out.
func TestListLargeJobs(t *testing.T) {
	s := openMem(t, pebblestore.Options{})
	defer s.Close()
	const jobs, body = 12, 1 << 20
	for n := range jobs {
		j := benchJob(int64(n))
		j.Request.Body = make([]byte, body)
		if _, err := s.Insert(t.Context(), j, store.Default); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []store.Query{{Limit: 1000}, {Limit: 1000, UserID: "user-3"}, {Limit: 1000, Target: "elsewhere.test"}} {
		found, pages := map[job.ID]bool{}, 0
		for more := true; more; more = !q.Before.IsZero() {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Jobs) > 4 {
				t.Fatalf("a page of %d jobs of a megabyte", len(page.Jobs))
			}
			for _, x := range page.Jobs {
				found[x.Job.ID] = true
			}
			q.Before = page.Next
			pages++
		}
		want := map[string]int{"user-3": 1}[q.UserID]
		if q.UserID == "" && q.Target == "" {
			want = jobs
		}
		if len(found) != want || pages > jobs/4 {
			t.Errorf("%d jobs on %d pages, want %d: %+v", len(found), pages, want, q)
		}
	}
}
