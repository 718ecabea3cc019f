package main

import (
	"sync/atomic"
	"time"
)

// entry is what is known about one job of a run. Times are ns of the shared clock, 0 for not yet.
type entry struct {
	// start, accepted and job belong to the load goroutine that drew the job.
	start    int64 // when the job was meant to be sent
	accepted int64 // when its acknowledgement was read
	job      uint64

	// The rest belongs to the goroutine that observes.
	called     int64 // first call at the target
	delivered  int64 // first webhook at the receiver
	seen       uint64
	calls      uint16
	deliveries uint16
	flags      uint8
}

// repeat is a call or a webhook that came once more.
type repeat struct {
	kind      kind
	first, at int64
}

// ledger counts what became of the jobs of a run. Its size is fixed, so that it costs nothing while
// the run lasts. tally may be called when load and observer have ended.
type ledger struct {
	entries []entry

	// repeats and strangers belong to the goroutine that observes.
	repeats   []repeat
	strangers int // events of jobs that are not of this run

	// The counters may be read at any time, by who waits for the run to end.
	accepted, delivered, refused, retried atomic.Int64
	lastCall                              atomic.Int64 // when the target last saw a call, ns of the shared clock
}

func newLedger(jobs int) *ledger { return &ledger{entries: make([]entry, jobs)} }

// accept records the acknowledgement of a job.
func (l *ledger) accept(seq int, at int64, job uint64) {
	l.entries[seq].accepted, l.entries[seq].job = at, job
	l.accepted.Add(1)
}

// observe records an event and reports whether it is the first webhook of its job.
func (l *ledger) observe(e event) (done bool) {
	if int(e.seq) >= len(l.entries) {
		l.strangers++
		return false
	}
	n := &l.entries[e.seq]
	n.flags |= e.flags
	if n.seen == 0 {
		n.seen = e.job
	}
	if n.seen != e.job {
		n.flags |= altered
	}
	switch e.kind {
	case called:
		l.lastCall.Store(e.at)
		l.count(&n.calls, &n.called, e)
	case delivered:
		if done = l.count(&n.deliveries, &n.delivered, e); done {
			l.delivered.Add(1)
		}
	default:
		l.strangers++
	}
	return done
}

func (l *ledger) count(n *uint16, first *int64, e event) bool {
	*n++
	if *n == 1 {
		*first = e.at
		return true
	}
	l.repeats = append(l.repeats, repeat{kind: e.kind, first: *first, at: e.at})
	return false
}

// progress grows whenever something happens to a job.
func (l *ledger) progress() int64 { return l.accepted.Load() + l.delivered.Load() + l.refused.Load() }

// tally is the account of a run.
type tally struct {
	Jobs              int `json:"jobs"`
	Accepted          int `json:"accepted"`
	Refused           int `json:"refused"` // never acknowledged, by the dispatcher's word or for want of an answer
	Unsent            int `json:"unsent"`  // given up before they were sent, because nothing happened any more
	Retried           int `json:"retried"` // requests that were sent again
	Lost              int `json:"lost"`    // acknowledged, no webhook
	DuplicateWebhooks int `json:"duplicate_webhooks"`
	RepeatedCalls     int `json:"repeated_calls"`
	AfterCrash        int `json:"repeats_after_crash"` // repeats of either kind that a crash explains
	Altered           int `json:"altered"`             // jobs whose body or id did not arrive as sent
	Failed            int `json:"failed"`              // jobs whose webhook says failed
	Strangers         int `json:"strangers"`
}

// crashSlack is how far before its first arrival's record a crash may lie and still explain a repeat:
// a request is on its way, and the clock is read a little after it came.
const crashSlack = int64(time.Second)

// tally counts. A repeat is explained by a crash between the first arrival and the repeated one; those
// are not counted among the duplicates.
func (l *ledger) tally(crashes []int64) tally {
	t := tally{
		Jobs: len(l.entries), Accepted: int(l.accepted.Load()), Refused: int(l.refused.Load()),
		Retried: int(l.retried.Load()), Strangers: l.strangers,
	}
	t.Unsent = t.Jobs - t.Accepted - t.Refused
	for i := range l.entries {
		n := &l.entries[i]
		if n.accepted != 0 && n.deliveries == 0 {
			t.Lost++
		}
		if n.flags&altered != 0 || (n.job != 0 && n.seen != 0 && n.job != n.seen) {
			t.Altered++
		}
		if n.flags&jobFailed != 0 {
			t.Failed++
		}
	}
	for _, r := range l.repeats {
		switch {
		case explained(r, crashes):
			t.AfterCrash++
		case r.kind == called:
			t.RepeatedCalls++
		default:
			t.DuplicateWebhooks++
		}
	}
	return t
}

func explained(r repeat, crashes []int64) bool {
	for _, c := range crashes {
		if c >= r.first-crashSlack && c <= r.at {
			return true
		}
	}
	return false
}
