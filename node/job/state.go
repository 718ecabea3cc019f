package job

import "slices"

// Status is where a job stands.
type Status string

// The statuses. A job is queued from its acceptance until it has ended, also while it is being sent.
const (
	Queued    Status = "queued"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s == Completed || s == Failed }

// MaxShownAttempts is how many attempts a job keeps to show: the first one and the latest ones.
const MaxShownAttempts = 50

// Result is what the deciding attempt brought.
type Result struct {
	Status      int    `cbor:"1,keyasint"`
	ContentType string `cbor:"2,keyasint,omitempty"`
	Body        []byte `cbor:"3,keyasint,omitempty"` // as far as it is kept
	Truncated   bool   `cbor:"4,keyasint,omitempty"` // Body is not the whole body
	// Partial: the answer was larger than the node reads, so that nobody has the whole body.
	Partial bool `cbor:"5,keyasint,omitempty"`
}

// State is what changes about a job. The zero State is that of a job just accepted.
//
// States only go forward. A transition names the attempt it speaks for and is refused (ok is false,
// the state unchanged) when a later attempt has begun or the job has ended.
type State struct {
	Status   Status    `cbor:"1,keyasint"`           // empty means Queued
	Tried    int       `cbor:"2,keyasint,omitempty"` // attempts begun so far
	Crashes  int       `cbor:"3,keyasint,omitempty"` // of them, those that the node did not survive
	Attempts []Attempt `cbor:"4,keyasint,omitempty"` // those that ended, in order; see MaxShownAttempts
	// Order is the job's place in its lane while it waits there or is being sent; 0 while DueAt is set.
	Order Order `cbor:"5,keyasint,omitempty"`
	// DueAt is when the next attempt is due, in Unix ms, while the job waits for a retry; else 0.
	DueAt   int64   `cbor:"6,keyasint,omitempty"`
	EndedAt int64   `cbor:"7,keyasint,omitempty"` // Unix ms; 0 before the end
	Reason  string  `cbor:"8,keyasint,omitempty"` // why the job failed
	Result  *Result `cbor:"9,keyasint,omitempty"` // nil if no attempt brought an answer
	// ExpiresAt is until when the ended job is kept, in Unix ms; 0 before the end.
	ExpiresAt int64 `cbor:"10,keyasint,omitempty"`
	// Direct: the first attempt went past the queue. It is none of those that Request.MaxRetries allows.
	Direct bool `cbor:"11,keyasint,omitempty"`
}

// Phase returns the status, Queued for the zero State.
func (s State) Phase() Status {
	if s.Status == "" {
		return Queued
	}
	return s.Status
}

// Begin starts attempt n, which must be the one after the last.
func (s State) Begin(n int) (_ State, ok bool) {
	if s.Phase().Ended() || n != s.Tried+1 {
		return s, false
	}
	s.Tried, s.DueAt = n, 0
	return s, true
}

// Retry ends attempt a and waits until due, in Unix ms.
func (s State) Retry(a Attempt, due int64) (_ State, ok bool) {
	if s.Phase().Ended() || a.Number != s.Tried {
		return s, false
	}
	s = s.record(a)
	s.Order, s.DueAt = 0, due
	return s, true
}

// End is how a job ended.
type End struct {
	Status Status
	At     int64    // Unix ms
	Keep   int64    // how long the ended job is kept, in ms
	Reason string   // why it failed; empty if it did not
	Last   *Attempt // the attempt that decided; nil if none did, such as when the deadline passed
	Result *Result  // nil if there was no answer
}

// Finish ends the job.
func (s State) Finish(e End) (_ State, ok bool) {
	if s.Phase().Ended() || (e.Last != nil && e.Last.Number != s.Tried) {
		return s, false
	}
	if e.Last != nil {
		s = s.record(*e.Last)
	}
	s.Status, s.EndedAt, s.Reason, s.Result = e.Status, e.At, e.Reason, e.Result
	s.Order, s.DueAt, s.ExpiresAt = 0, 0, e.At+e.Keep
	return s, true
}

// Late records an answer that came when it no longer mattered. An attempt that was recorded already,
// as timed out for instance, keeps what stands there and shows the answer's status beside it.
func (s State) Late(a Attempt) State {
	a.Late = true
	at, found := s.find(a.Number)
	if !found {
		return s.record(a)
	}
	s.Attempts = slices.Clone(s.Attempts)
	s.Attempts[at].Status, s.Attempts[at].Late = a.Status, true
	return s
}

// Interrupt counts the attempt that was open when the node died.
func (s State) Interrupt(a Attempt) State {
	a.Error = CrashedWorker
	a.MaybeExecuted = true
	s.Tried = max(s.Tried, a.Number)
	s.Crashes++
	return s.record(a)
}

// record returns s with a among its attempts, in order, and never touches the slice that s shares
// with other copies.
func (s State) record(a Attempt) State {
	at, found := s.find(a.Number)
	if found {
		return s
	}
	list := make([]Attempt, 0, len(s.Attempts)+1)
	list = append(append(append(list, s.Attempts[:at]...), a), s.Attempts[at:]...)
	if len(list) > MaxShownAttempts {
		list = slices.Delete(list, 1, 2)
	}
	s.Attempts = list
	return s
}

// Open reports whether the latest attempt has begun and is not recorded as ended.
func (s State) Open() bool {
	n := len(s.Attempts)
	return s.Tried > 0 && (n == 0 || s.Attempts[n-1].Number < s.Tried)
}

// Retries is how many of the attempts were retries. The attempt past the queue counts neither as one nor as what the
// first one repeats.
func (s State) Retries() int { return max(s.Tried-1-s.beside(), 0) }

// beside is how many attempts went past the queue.
func (s State) beside() int {
	if s.Direct {
		return 1
	}
	return 0
}

// Recorded reports whether attempt n stands among the recorded ones.
func (s State) Recorded(n int) bool {
	_, found := s.find(n)
	return found
}

// find returns where attempt n is among the recorded ones, or where it belongs.
func (s State) find(n int) (at int, found bool) {
	return slices.BinarySearchFunc(s.Attempts, n, func(a Attempt, n int) int { return a.Number - n })
}
