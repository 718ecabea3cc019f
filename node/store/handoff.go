package store

import (
	"context"
	"iter"
	"time"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// HandOff moves unfinished work from the store of one node to that of another, so that at every moment,
// whichever of the two crashes, exactly one of them may run it.
//
// The giver offers work to a peer, which takes it out of its place here: nothing runs it any more. Then it
// sends it, and the peer adopts it. The giver forgets what the peer has, and keeps what the peer has not.
// As long as it does not know, it must neither keep it nor offer it to another peer, also after a crash:
// the peer may have it. Offering again to the same peer does no harm.
//
// Each hand-over counts up the job's Moves, so that of two copies the newer one is known: a store that
// has, or has lately handed on, a copy at least as new as the one that it is to adopt says that it holds it.
type HandOff interface {
	// Unfinished iterates over the work that can be offered: jobs that wait to be sent, and ended ones whose
	// delivery waits. It leaves out open attempts and what is offered.
	Unfinished(ctx context.Context) iter.Seq2[Handed, error]
	// Offer takes work out of its places for a peer, and returns what it took. It passes over what has moved
	// since Unfinished returned it, was begun or is offered. It is on disk when Offer returns, in any
	// configuration. While work is offered no transition of it is possible; each returns ErrStale.
	Offer(ctx context.Context, peer string, work []Handed) ([]Handed, error)
	// Offers iterates over all that is offered, to whomever.
	Offers(ctx context.Context) iter.Seq2[Offered, error]
	// Keep puts work that was offered to a peer, as Offer or Offers returned it, back to where it was, with its
	// old order. It passes over what is not offered to that peer, or as a newer copy. It returns what of the work
	// stands where it was now, also if that is so since an earlier call.
	Keep(ctx context.Context, peer string, work []Handed) ([]Handed, error)
	// Forget removes jobs that were offered to a peer, as Offer or Offers returned them; the peer has them
	// now. For LeftFor at least it remembers that they were here. It passes over what Keep does.
	Forget(ctx context.Context, peer string, work []Handed) error

	// Judge tells what Adopt would say now, and changes nothing.
	Judge(ctx context.Context, work []Handed) ([]Adoption, error)
	// Adopt adds jobs of another store under their ids, at the tails of their lanes or among what is due. Its
	// answers stand in the order of work. All that it adds is added in one step, which is on disk when Adopt
	// returns, in any configuration. On a full disk it returns ErrFull at once.
	Adopt(ctx context.Context, work []Handed) ([]Adoption, error)
}

// LeftFor is how long a store remembers at least that it has forgotten a job. A job handed over twice, because
// its giver crashed, is recognised for so long also by a peer that has handed it on in between.
const LeftFor = 48 * time.Hour

// Handed is a job as its next holder is to have it: its Moves is one more than that of the holder before.
// Orders in it are those of the store that it comes from, and mean nothing to another one.
type Handed struct {
	Job     *job.Job    `cbor:"1,keyasint"`
	State   job.State   `cbor:"2,keyasint"`
	Webhook job.Webhook `cbor:"3,keyasint"`
	// Payload is the whole body of the answer that the delivery owes, if State.Result has it cut; else nil.
	Payload []byte `cbor:"4,keyasint,omitempty"`
}

// NewHanded returns what the next holder of a job is to have.
func NewHanded(s job.Snapshot, payload []byte) Handed {
	j := *s.Job
	j.Moves++
	return Handed{Job: &j, State: s.State, Webhook: s.Webhook, Payload: payload}
}

// Snapshot is the job as its next holder shows it.
func (h Handed) Snapshot() job.Snapshot {
	return job.Snapshot{Job: h.Job, State: h.State, Webhook: h.Webhook}
}

// Line is the kind of work that the job is.
func (h Handed) Line() job.Line {
	if h.State.Phase().Ended() {
		return job.Deliveries
	}
	return job.Calls
}

// Place is where the work stands in the store that it comes from: its entry, whose Order is 0 while it is
// among what is due.
func (h Handed) Place() job.Entry {
	if h.Line() == job.Deliveries {
		return job.Entry{Lane: h.Job.WebhookLane(), Order: h.Webhook.Order, ID: h.Job.ID}
	}
	return job.Entry{Lane: h.Job.Lane(), Order: h.State.Order, ID: h.Job.ID}
}

// DueAt is when the work comes due, in Unix ms; 0 while it stands in a lane.
func (h Handed) DueAt() int64 {
	if h.Line() == job.Deliveries {
		return h.Webhook.DueAt
	}
	return h.State.DueAt
}

// Stands reports whether the work is still, or again, here as it was when h was made.
func (h Handed) Stands(now job.Snapshot) bool {
	return now.Job.Moves == h.Job.Moves-1 && h.SamePlace(now)
}

// SamePlace reports whether the work stands where it stood when h was made.
func (h Handed) SamePlace(now job.Snapshot) bool {
	other := Handed{Job: now.Job, State: now.State, Webhook: now.Webhook}
	return h.Line() == other.Line() && h.Place() == other.Place() && h.DueAt() == other.DueAt()
}

// Offered is work that was offered to a peer.
type Offered struct {
	Peer string
	Handed
}

// Adoption is what became of a job that was to be adopted.
type Adoption struct {
	Verdict Verdict
	// Entry is the place of work that was adopted; zero if it was not, and with Order 0 if it is among what
	// is due.
	Entry job.Entry
}

// Verdict says what became of a job that was to be adopted.
type Verdict uint8

const (
	// Adopted: the job is here now.
	Adopted Verdict = 1
	// Held: the store has this copy of the job or a newer one, or had it and handed it on.
	Held Verdict = 2
	// Taken: another job has its idempotency key here.
	Taken Verdict = 3
	// Unsettled: an older copy of the job is here, and it is not known yet what becomes of that.
	Unsettled Verdict = 4
)

// String returns the verdict's name in logs.
func (v Verdict) String() string {
	switch v {
	case Adopted:
		return "adopted"
	case Held:
		return "held"
	case Taken:
		return "taken"
	case Unsettled:
		return "unsettled"
	default:
		return "unknown"
	}
}

// Weigh says what becomes of a copy with so many moves that is to be adopted. here is the copy that the
// store has, nil if it has none; offered tells that it is offered; left is the Moves of the newest copy that
// the store has handed on lately, 0 if it has handed on none. Adopted means that it may be added, in place
// of what is here.
//
// A copy is only held if one at least as new is or was here: so the newest one is never given up. A copy
// that comes back from whoever got the one offered here is newer by two: it was handed over twice.
func Weigh(moves int, here *job.Job, offered bool, left int) Verdict {
	switch {
	case left >= moves, here != nil && here.Moves >= moves:
		return Held
	case here == nil, offered && moves >= here.Moves+2:
		return Adopted
	default:
		return Unsettled
	}
}
