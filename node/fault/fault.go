// Package fault is the closed set of ways a request can fail, as its caller sees them.
//
// A package of the node that refuses or fails a request returns an *Error; node/api alone turns a
// Kind into an HTTP status. Everything that is not an *Error is an internal failure, and its text
// stays in the log.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says in one word what went wrong. Zero is not a kind: an Error without one is a bug, and is
// answered like Internal.
type Kind uint8

const (
	// Invalid: the request breaks a rule that the caller can read in Detail; the same request
	// will never be accepted.
	Invalid Kind = iota + 1
	// TooLarge: the request body is over the limit in Limit.
	TooLarge
	// NotFound: there is no such job, or it has expired.
	NotFound
	// Conflict: the job is not in a state in which the request makes sense.
	Conflict
	// Mismatch: the idempotency key is taken by a job that asks for something else.
	Mismatch
	// Overloaded: new work is refused for now because of the limit in Limit.
	Overloaded
	// Draining: the node is shutting down and takes no new work.
	Draining
	// Unavailable: the node cannot do its part at the moment, for instance because its disk is full.
	Unavailable
	// Internal: a fault of ours. Detail must not explain it to the caller; Err does, in the log.
	Internal
)

var names = [...]string{
	Invalid: "invalid", TooLarge: "too_large", NotFound: "not_found", Conflict: "conflict",
	Mismatch:   "mismatch",
	Overloaded: "overloaded", Draining: "draining", Unavailable: "unavailable", Internal: "internal",
}

// String returns the kind's name as it stands in logs and metrics.
func (k Kind) String() string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return "internal"
}

// Kinds lists every kind, in order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(names))
	for k := Invalid; int(k) < len(names); k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// Limit is the limit that a refusal ran into.
type Limit struct {
	// Reason is the limit's name on the wire, such as "db_size".
	Reason string
	// Limit and Current are in the unit of the reason: bytes, megabytes, milliseconds or jobs. 0 is for what is not known.
	Limit, Current int64
}

// Error is one failure.
type Error struct {
	Kind Kind
	// Detail is for the caller: what was wrong, with the field, the rule and the value.
	Detail string
	// RetryAfter is how long the caller should wait; zero when a retry is no use or the answer's
	// default fits.
	RetryAfter time.Duration
	// Limit is set when a limit was hit.
	Limit *Limit
	// Err is the cause, for the log only.
	Err error
}

// New returns an error of a kind, with a detail for the caller.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Wrap returns an error of a kind with a detail for the caller and a cause for the log.
func Wrap(kind Kind, err error, detail string) *Error {
	return &Error{Kind: kind, Detail: detail, Err: err}
}

// Error joins kind, detail and cause for the log.
func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Kind.String() + ": " + e.Detail
	case e.Detail == "":
		return e.Kind.String() + ": " + e.Err.Error()
	default:
		return e.Kind.String() + ": " + e.Detail + ": " + e.Err.Error()
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err, Internal for an error of no kind. A nil error has no kind.
func KindOf(err error) Kind {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) && e.Kind != 0 {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is a fault of the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
