package job

import (
	"math"
	"time"
)

// Job is an accepted request. It never changes.
type Job struct {
	ID        ID      `cbor:"1,keyasint"`
	Request   Request `cbor:"2,keyasint"`
	CreatedAt int64   `cbor:"3,keyasint"` // Unix ms
	// Deadline is when the job fails if it is still waiting, in Unix ms: execute_before if the
	// caller set it, else the end of the time that a queued job is kept.
	Deadline int64 `cbor:"4,keyasint"`
	// RedriveOf is the finished job that this one runs again; zero for a first run. A rerun has
	// no claim on the idempotency key.
	RedriveOf ID `cbor:"5,keyasint,omitzero"`
	// Shared has the job wait in the queue of its target that tenants share, not in its tenant's own.
	Shared bool `cbor:"6,keyasint,omitzero"`
	// Moves is how often the job was handed from one node to another.
	Moves int `cbor:"7,keyasint,omitzero"`
	// Direct has the first attempt go past the queue, if it can begin there. State.Direct tells whether it has.
	Direct bool `cbor:"8,keyasint,omitzero"`
	// DirectOnly has the job end with that attempt, without a trace unless it completes.
	DirectOnly bool `cbor:"9,keyasint,omitzero"`
}

// Lane is where the job waits for its target.
func (j *Job) Lane() Lane {
	l := Lane{Target: TargetOf(j.Request.URL)}
	if !j.Shared {
		l.Tenant = TenantOf(&j.Request)
	}
	return l
}

// WebhookLane is where the job's result waits for its receiver.
func (j *Job) WebhookLane() Lane {
	return Lane{Target: TargetOf(j.Request.WebhookURL), Tenant: TenantOfUser(j.Request.UserID)}
}

// Expired reports whether the job may no longer be sent.
func (j *Job) Expired(now time.Time) bool { return now.UnixMilli() >= j.Deadline }

// AttemptsAllowed is how many attempts a job in this state may make; math.MaxInt if only time bounds them.
func (j *Job) AttemptsAllowed(s State) int {
	if j.Request.MaxRetries < 0 {
		return math.MaxInt
	}
	return j.Request.MaxRetries + 1 + s.beside()
}

// Void reports whether a job that ends like this leaves no trace.
func (j *Job) Void(end Status) bool { return j.DirectOnly && end == Failed }

// Snapshot is a job with everything known about it at one moment.
type Snapshot struct {
	Job     *Job
	State   State
	Webhook Webhook
}
