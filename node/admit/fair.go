package admit

import (
	"fmt"

	"github.com/aquifer-fleet/aquifer/node/fault"
)

// The reasons of a refusal by the rules about one tenant or one target, as they stand in fault.Limit
// and on the wire.
const (
	QueueFairShare = "queue_fair_share" // in jobs: the queue has more than its share, others may come
	UpstreamQueue  = "upstream_queue"   // in jobs: the target is full, for whoever comes
	WebhookBacklog = "webhook_backlog"  // in deliveries
)

// Backlog is how many unfinished jobs a target has, with the one that asks to join counted in.
type Backlog struct {
	Budget int // what the target may have; 0 or less: any number
	Queue  int // of the queue that the job joins: all of the target's where tenants share one
	Target int // of all the target's queues
	Active int // queues of the target that have any
}

// Pressure is how far the target's budget is used up: 0 up to 70 % of it, 1 from all of it on.
func (b Backlog) Pressure() float64 {
	if b.Budget <= 0 {
		return 0
	}
	free := 0.7 * float64(b.Budget)
	return clamp((float64(b.Target) - free) / (float64(b.Budget) - free))
}

// DecideQueue returns nil if the job may join its queue, else a fault of kind Overloaded. draw is a
// random number in [0, 1).
//
// The share of a queue is the budget by the number of active queues, and at least one job. A queue
// within its share joins until the target has 125 % of its budget, so that those who fill the budget
// do not shut out those who ask for little. One above its share joins until the budget is used up,
// the less likely the higher the pressure and the more it has.
//
// The limit of a refusal is the budget, the current value the target's backlog without the job. Its
// RetryAfter is the caller's to set, and does not grow from one refusal to the next.
//
// Jobs that come at once must not all count each other, or all would be refused where one has room.
// So a job is reserved and its Backlog read in one hold of the target's lock: then each is judged by
// those before it. Who is refused gives the reservation back. Until then it may keep another one
// out; it never lets one in too many. A duplicate, a job of an earlier process and a delivery do not
// ask.
func DecideQueue(b Backlog, draw float64) *fault.Error {
	if b.Budget <= 0 {
		return nil
	}
	over, share := b.Target-b.Budget, b.share()
	switch {
	case over > b.Budget/4, over > 0 && b.Active <= 1:
		return b.refusal(UpstreamQueue, fmt.Sprintf("the target has %d of %d unfinished jobs", b.Target-1, b.Budget))
	case float64(b.Queue) <= share:
		return nil
	case over > 0, draw < b.Pressure()*b.excess(share):
		return b.refusal(QueueFairShare, fmt.Sprintf("this queue has %d unfinished jobs, its fair share is %d; the target has %d of %d",
			b.Queue-1, int(share), b.Target-1, b.Budget))
	}
	return nil
}

// share is what each queue may have. Less than one job would be a share that nobody can keep to.
func (b Backlog) share() float64 { return max(float64(b.Budget)/float64(max(b.Active, 1)), 1) }

// excess is how far the queue, which is above its share, is on the way from there to the budget.
func (b Backlog) excess(share float64) float64 {
	return clamp((float64(b.Queue) - share) / (float64(b.Budget) - share))
}

func (b Backlog) refusal(reason, detail string) *fault.Error {
	return &fault.Error{
		Kind: fault.Overloaded, Detail: detail,
		Limit: &fault.Limit{Reason: reason, Limit: int64(b.Budget), Current: int64(b.Target - 1)},
	}
}

// Deliveries are the unfinished webhook deliveries of one user.
type Deliveries struct {
	Limit   int  // what the user may have before new jobs are refused; 0 or less: any number
	Pending int  // what the user has
	Others  bool // another user has unfinished work here
}

// DecideWebhooks returns nil if a new job of the user may come, else a fault of kind Overloaded. draw
// is a random number in [0, 1).
//
// Above the limit a job is refused with a probability that grows up to twice the limit, from where on
// all are. A user who is alone here is in nobody's way and never refused. RetryAfter is the caller's
// to set.
func DecideWebhooks(d Deliveries, draw float64) *fault.Error {
	if d.Limit <= 0 || !d.Others {
		return nil
	}
	if draw >= clamp(float64(d.Pending-d.Limit)/float64(d.Limit)) {
		return nil
	}
	return &fault.Error{
		Kind: fault.Overloaded, Detail: fmt.Sprintf("this user has %d undelivered webhooks, the limit is %d", d.Pending, d.Limit),
		Limit: &fault.Limit{Reason: WebhookBacklog, Limit: int64(d.Limit), Current: int64(d.Pending)},
	}
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }
