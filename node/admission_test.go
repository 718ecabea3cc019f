package node

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// BenchmarkAdmission is what it costs to admit one request to a target under pressure, beside what the
// store costs: for a user who owes few webhooks, and for one of whom every rule takes a closer look.
func BenchmarkAdmission(b *testing.B) {
	r := &job.Request{UserID: "somebody"}
	load := queue.Load{LaneBacklog: 500, TargetBacklog: 8000, ActiveLanes: 10}
	for name, owed := range map[string]int{"owes few": 10, "owes many": 1001} {
		a := newAdmission()
		for n := range owed {
			var id job.ID
			binary.BigEndian.PutUint64(id[:], uint64(n))
			a.deliveries.Reserve(job.Lane{Target: "http://receiver", Tenant: job.TenantOfUser(r.UserID)}, id)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := a.AdmitJoined(load)
				if err := errors.Join(a.AdmitUser(r), a.Admit(500), err); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// newAdmission is the admission of a machine that has enough of all.
func newAdmission() *admission {
	none := func() *queue.Queue {
		return queue.New(queue.Config{
			CountTenants: true,
			Settings:     func(string) pace.Settings { return pace.Settings{RPS: 1, MaxConcurrent: 1} },
		})
	}
	sampler := admit.NewSampler(admit.Sources{
		Usage: func() (int64, time.Duration) { return admit.MB, 0 },
		Space: func() (int64, int64, error) { return 1000 * admit.MB, 2000 * admit.MB, nil },
	})
	limits := admit.Limits{Memory: 1 << 40, DB: admit.Auto, SyncLag: time.Second}
	return &admission{
		Gate: admit.New(admit.Config{Limits: limits, Sampler: sampler}), calls: none(), deliveries: none(),
		maxPending: 10_000, maxWebhooks: 1000,
	}
}
