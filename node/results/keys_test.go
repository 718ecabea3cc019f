package results_test

import (
	"fmt"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/results"
)

func TestSetAll(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	n := start(t, config(s.URL(), "a"))
	values := make(map[string]string)
	for i := range 600 {
		values[fmt.Sprint("hash-", i)] = fmt.Sprint("value-", i)
	}
	j, first := n.job("u", "k"), job.ID{1}
	values[j.Request.Key().WireHash()] = `{"job_id":"` + first.String() + `","status":"failed"}`
	if err := n.SetAll(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	for hash, want := range values {
		if got := s.Get("aqueduct:idempotency:" + hash); got != want {
			t.Fatalf("%s is %q, want %q", hash, got, want)
		}
	}
	if left, _ := s.Do("TTL", entryKey(j)).AsInt64(); left < 7100 || left > 7200 {
		t.Errorf("kept for %d s", left)
	}
	if h := n.Find(t.Context(), j.Request.Key()); h == nil || h.ID != first || h.Status != job.Failed {
		t.Errorf("found %+v", h)
	}
	if err := n.SetAll(t.Context(), nil); err != nil {
		t.Error(err)
	}
	s.Kill()
	if err := n.SetAll(t.Context(), values); err == nil {
		t.Error("a Valkey that is gone takes everything")
	}
	var none *results.Region
	if err := none.SetAll(t.Context(), values); err == nil {
		t.Error("nobody takes everything")
	}
}
