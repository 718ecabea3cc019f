package results_test

import (
	"strconv"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

// BenchmarkClaim: what a claim adds to the acceptance of a job, with Valkey on the same machine and many
// callers.
func BenchmarkClaim(b *testing.B) {
	s := valkeytest.Start(b)
	r, err := results.New(config(s.URL(), "a"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	n := node{tag: job.TagOf("a")}
	id := n.job("u", "k").ID
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := r.Claim(b.Context(), job.Key{UserID: "u", Name: strconv.Itoa(i)}, id, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
