package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// The two prefixes of every header of the protocol: the one to prefer, and its alias.
const (
	aqueduct = "X-Aqueduct-"
	aquifer  = "X-Aquifer-"
)

// setBoth sets a header of the protocol under both of its names, which are in canonical form.
func setBoth(h http.Header, preferred, alias, value string) {
	values := []string{value}
	h[preferred], h[alias] = values, values
}

// either reads a header of the protocol: the preferred name unless it is empty.
func either(h http.Header, preferred, alias string) string {
	if v := h[preferred]; len(v) > 0 && v[0] != "" {
		return v[0]
	}
	if v := h[alias]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// refusal is the body of an answer that is not what the caller wanted.
type refusal struct {
	Error       string `json:"error"`
	LimitReason string `json:"limit_reason,omitempty"`
	Limit       *int64 `json:"limit,omitempty"`
	Current     *int64 `json:"current,omitempty"`
	LimitBytes  int64  `json:"limit_bytes,omitempty"`
}

// limited tells which limit was hit, and of its numbers those that are known.
func (r *refusal) limited(l *fault.Limit) {
	if l == nil {
		return
	}
	r.LimitReason = l.Reason
	if l.Limit != 0 || l.Current != 0 {
		r.Limit = &l.Limit
	}
	if l.Current != 0 {
		r.Current = &l.Current
	}
}

// status is the status of each kind of fault; the package documentation has the same table.
func status(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Mismatch:
		return http.StatusUnprocessableEntity
	case fault.Overloaded:
		return http.StatusTooManyRequests
	case fault.Draining, fault.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// asFault returns err as the fault that its caller sees.
func asFault(err error) *fault.Error {
	var e *fault.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, store.ErrNotFound):
		return fault.New(fault.NotFound, "job not found")
	case errors.Is(err, store.ErrClosed):
		return fault.Wrap(fault.Unavailable, err, "the node has stopped")
	default:
		return fault.Wrap(fault.Internal, err, "")
	}
}

// statusGone is what counts as the status of a request whose client has left, and to which nothing is written.
const statusGone = 499

// fail answers with a fault.
func (f *face) fail(w http.ResponseWriter, r *http.Request, err error) int {
	e := asFault(err)
	code := status(e.Kind)
	body := refusal{Error: e.Detail}
	if id := r.PathValue("id"); e.Kind == fault.NotFound && id != "" {
		body.Error = fmt.Sprintf("%s: %.64s", e.Detail, id)
	}
	internal := code == http.StatusInternalServerError
	if internal && r.Context().Err() != nil {
		return statusGone
	}
	if internal {
		body.Error = "internal error"
	}
	// What fails because the caller has left is no failure of ours.
	if (internal || e.Kind == fault.Unavailable && e.Err != nil) && r.Context().Err() == nil {
		f.failures.Raise(r.Context(), e, "route", r.Pattern)
	}
	switch h := w.Header(); e.Kind {
	case fault.TooLarge:
		h.Set("Connection", "close")
		body.limited(e.Limit)
		if e.Limit != nil {
			body.LimitBytes = e.Limit.Limit
		}
	case fault.Draining:
		h.Set("Connection", "close")
		setBoth(h, aqueduct+"Node-State", aquifer+"Node-State", "draining")
		h.Set("Retry-After", f.retryAfter(e))
	case fault.Overloaded, fault.Unavailable:
		h.Set("Retry-After", f.retryAfter(e))
		body.limited(e.Limit)
	}
	return writeJSON(w, code, body)
}

// retryAfter is the Retry-After of a refusal: whole seconds, rounded up, at least one.
func (f *face) retryAfter(e *fault.Error) string {
	wait := e.RetryAfter
	if wait <= 0 {
		wait = f.RetryAfter()
	}
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}

// writeJSON answers with a value that has a JSON form, and returns the status.
func writeJSON(w http.ResponseWriter, status int, v any) int {
	body, err := json.Marshal(v)
	if err != nil { // a NaN in a reading; every other field of ours has a form
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone is nobody to tell
	return status
}

// drainingFault refuses because the node is shutting down, if it is.
func (f *face) drainingFault() error {
	if f.Draining() {
		return fault.New(fault.Draining, "the node is draining")
	}
	return nil
}

// seconds is d in whole seconds, as it stands in texts and headers.
func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
