package node

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/queue"
)

// admission is all that may refuse a new job: what the process has left, what a tenant owes to its
// webhooks, and how full a target is.
type admission struct {
	*admit.Gate
	calls, deliveries *queue.Queue
	maxPending        int // unfinished jobs of a target; 0: any number
	maxWebhooks       int // undelivered webhooks of a user; 0: any number
}

// AdmitUser is intake.Admission. Whose the jobs of other tenants are is not known here: a user with several API keys, or one
// whose jobs wait in a queue that tenants share, counts as if others had work.
func (a *admission) AdmitUser(r *job.Request) error {
	if a.maxWebhooks <= 0 {
		return nil
	}
	owed, others := a.deliveries.Tenant(job.TenantOfUser(r.UserID))
	if owed <= a.maxWebhooks {
		return nil
	}
	if !others {
		_, others = a.calls.Tenant(job.TenantOf(r))
	}
	return a.Refuse(admit.DecideWebhooks(admit.Deliveries{Limit: a.maxWebhooks, Pending: owed, Others: others}, rand.Float64()))
}

// AdmitJoined is intake.Admission.
func (a *admission) AdmitJoined(l queue.Load) (pressure float64, err error) {
	b := a.backlog(l)
	refused := admit.DecideQueue(b, rand.Float64())
	if refused != nil && a.tightens(l) {
		refused.RetryAfter = time.Until(l.MaxBacklogUntil)
	}
	return b.Pressure(), a.Refuse(refused)
}

// AdmitDirect is intake.Admission. What fails past the queue joins it, all at once if the target breaks: it must be no more
// than that takes.
func (a *admission) AdmitDirect(l queue.Load) bool {
	b := a.backlog(l)
	return b.Budget <= 0 || b.Target <= b.Budget
}

// tightens tells that a target has asked for a lower bound than the configured one: when that ends there may be room.
func (a *admission) tightens(l queue.Load) bool {
	asked := l.MaxBacklog.Value
	return l.MaxBacklog.Given() && asked > 0 && (a.maxPending <= 0 || asked < a.maxPending)
}

// pressure is that of the fullest target, with three decimals as callers are told it.
func (a *admission) pressure() float64 {
	var most float64
	a.calls.Loads(func(l queue.Load) { most = max(most, a.backlog(l).Pressure()) })
	return math.Round(most*1000) / 1000
}

// backlog is what a target has, beside what it may have.
func (a *admission) backlog(l queue.Load) admit.Backlog {
	budget := a.maxPending
	if l.MaxBacklog.Given() {
		budget = l.MaxBacklog.Value
	}
	return admit.Backlog{Budget: budget, Queue: l.LaneBacklog, Target: l.TargetBacklog, Active: l.ActiveLanes}
}
