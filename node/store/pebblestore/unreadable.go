package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// errMalformed: what a key or its value says cannot be understood.
var errMalformed = errors.New("malformed")

// maxUnreadable bounds how many unreadable records are remembered: about a megabyte.
const maxUnreadable = 10_000

// unreadable knows the records that cannot be read. They stay where they are, for whoever can read them,
// and all others go on. It is safe for concurrent use.
type unreadable struct {
	logger *slog.Logger
	lines  seldom
	count  atomic.Int64 // different ones

	mu   sync.RWMutex // guards the rest
	keys map[string]struct{}
	jobs map[job.ID]struct{} // whose work cannot go on
}

func newUnreadable(logger *slog.Logger) *unreadable {
	return &unreadable{logger: logger, keys: make(map[string]struct{}), jobs: make(map[job.ID]struct{})}
}

// note counts a record that cannot be read, once, says so in the log, and returns the error to give.
func (u *unreadable) note(key []byte, cause error) error {
	what, id := describe(key)
	err := fmt.Errorf("%w: %s: %w", store.ErrCorrupt, what, cause)
	if !u.first(key, id) {
		return err
	}
	u.count.Add(1)
	if kept, ok := u.lines.may(); ok {
		u.logger.Error("record cannot be read: it is left out and kept", "record", what, "key", fmt.Sprintf("%x", key),
			"error", cause, "more_before", kept)
	}
	return err
}

// first remembers a key and reports whether it was new.
func (u *unreadable) first(key []byte, id job.ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.keys[string(key)]; known || len(u.keys) >= maxUnreadable {
		return false
	}
	u.keys[string(key)] = struct{}{}
	switch key[0] {
	case kindJob, kindState, kindWebhook, kindDue, kindExpiry:
		u.jobs[id] = struct{}{}
	}
	return true
}

// stops reports whether the work of a job is known to be unable to go on.
func (u *unreadable) stops(id job.ID) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	_, stops := u.jobs[id]
	return stops
}

// describe says what stands behind a key, and of which job, if the key is well-formed and says that.
func describe(key []byte) (what string, id job.ID) {
	names := map[byte]string{
		kindAttempt: "open attempt", kindDue: "retry", kindJob: "request", kindKey: "idempotency key", kindLane: "place in a lane",
		kindMeta: "setting", kindPayload: "answer", kindState: "state", kindDeadline: "deadline", kindUser: "user index",
		kindWebhook: "delivery", kindExpiry: "settled delivery", kindLedger: "entry of the ledger", kindFlushed: "flushed job",
		kindOffer: "offer", kindOverride: "order for a target", kindLeft: "departure",
	}
	what = names[key[0]]
	switch key[0] {
	case kindKey, kindLane, kindMeta, kindLedger, kindOverride:
		return what, job.ID{}
	}
	if !wellFormed(key) {
		return what, job.ID{}
	}
	id = keyID(key)
	return what + " of job " + id.String(), id
}

// wellFormed reports whether a key is as long as its kind is. What is in the key of a lane its reader tells.
func wellFormed(key []byte) bool {
	switch key[0] {
	case kindJob, kindState, kindAttempt, kindWebhook, kindPayload, kindFlushed, kindOffer:
		return len(key) == 1+idLen
	case kindDeadline, kindExpiry:
		return len(key) == 1+timeLen+idLen
	case kindDue:
		return len(key) == 1+timeLen+1+idLen
	case kindUser:
		return len(key) == 1+userLen+idLen
	case kindLedger:
		return len(key) == 1+orderLen
	case kindLeft:
		return len(key) == leftLen
	case kindKey:
		return len(key) == 1+len(job.KeyHash{})
	default:
		return true
	}
}

// readable reports whether an iteration can read a key, and notes it if not.
func (s *Store) readable(key []byte) bool {
	if wellFormed(key) {
		return true
	}
	_ = s.unreadable.note(key, errMalformed) // noted is all that is to be done
	return false
}
