package link

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// tolerated is how many calls must fail, each of them begun after the one before had failed, until Valkey counts
	// as down: one may have met a pause of either side, and so may all that were under way with it.
	tolerated = 3
	// probePause is how long a Valkey that is down is left alone between two calls that ask for it.
	probePause = 100 * time.Millisecond
	// refusalPause is how long a refusal is not logged again, and refusalKinds of how many kinds that is known.
	refusalPause = time.Minute
	refusalKinds = 16
)

// health is whether Valkey answers, so that callers need not each find out by waiting.
//
// mu guards everything below it.
type health struct {
	log *slog.Logger

	mu       sync.Mutex
	failures int       // calls that failed one after the other since the last success
	failedAt time.Time // the last of them
	probeAt  time.Time // when the next call may ask, while Valkey is down
	probing  bool      // one is asking
	// refusals are when Valkey's refusals were logged last, by their first words.
	refusals map[string]time.Time
}

// enter lets a call go on, or returns ErrDown.
func (h *health) enter(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures < tolerated {
		return nil
	}
	if h.probing || now.Before(h.probeAt) {
		return ErrDown
	}
	h.probing = true
	return nil
}

// heard notes that Valkey has answered a call, also if its caller has given up: the next one may ask at once.
func (h *health) heard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probeAt = time.Time{}
}

// leave takes the outcome of a call that began at a time and was let in.
func (h *health) leave(began, now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	refused := Refuses(err)
	if refused {
		h.refused(now, err)
	}
	if !failed(err) {
		if h.failures >= tolerated {
			h.log.Info("valkey answers again")
		}
		h.failures, h.probing = 0, false
		return
	}
	if h.failures > 0 && began.Before(h.failedAt) {
		return // it is not the one that asks
	}
	h.failures++
	h.probing = false
	h.failedAt, h.probeAt = now, now.Add(probePause)
	if h.failures == tolerated && !refused {
		h.log.Warn("valkey does not answer", "error", err)
	}
}

// refused logs what Valkey says, each kind of refusal once in a while; h.mu is held.
func (h *health) refused(now time.Time, err error) {
	kind := firstWord(err)
	if at, said := h.refusals[kind]; said && now.Sub(at) < refusalPause {
		return
	}
	if h.refusals == nil || len(h.refusals) >= refusalKinds {
		h.refusals = make(map[string]time.Time)
	}
	h.refusals[kind] = now
	h.log.Warn("valkey refuses", "error", err)
}

// abandon takes back a call whose caller has gone.
func (h *health) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = false
}

// failed reports whether an error shows that Valkey cannot do its work now. Other answers, such as that a
// value has the wrong type, come from a server that can.
func failed(err error) bool {
	if err == nil || errors.Is(err, ErrClosed) {
		return false
	}
	if Refuses(err) {
		return slices.Contains([]string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"}, firstWord(err))
	}
	return !valkey.IsValkeyNil(err)
}

// Refuses reports whether an error is that Valkey has answered, and does not do what it was asked: because of a wrong
// password, say, or because it is full.
func Refuses(err error) bool {
	answer, ok := errors.AsType[*valkey.ValkeyError](err)
	return ok && !answer.IsNil()
}

// firstWord is how a refusal of Valkey begins, which tells its kind; empty if an error is none.
func firstWord(err error) string {
	answer, ok := errors.AsType[*valkey.ValkeyError](err)
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}
