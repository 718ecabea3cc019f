package dispatch

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// Outcome is what became of an attempt.
type Outcome struct {
	// Status and Header are the answer's; 0 and nil if it did not come as far. With Class set the
	// answer is not whole, and its status decides nothing.
	Status int
	Header http.Header
	// Body is the answer's, as far as it is read; nil with Class set.
	Body      []byte
	Truncated bool // there is more than Body

	// Class says why there is no whole answer; empty if there is one. Err is the reason behind it.
	Class job.ErrorClass
	Err   error
	// MaybeExecuted marks a failed attempt whose request the target may have read.
	MaybeExecuted bool
	// NoRetry tells that another attempt at the same call is no use: the target said so, or the call
	// cannot be sent.
	NoRetry bool

	StartedAt time.Time
	Took      time.Duration
}

// classes are the names that a job's caller knows for the causes.
var classes = map[egress.Cause]job.ErrorClass{
	egress.Unsendable:     job.Internal,
	egress.Blocked:        job.BlockedTarget,
	egress.DNS:            job.DNS,
	egress.Refused:        job.ConnectRefused,
	egress.ConnectTimeout: job.ConnectTimeout,
	egress.TLS:            job.TLS,
	egress.Timeout:        job.Timeout,
	egress.Reset:          job.ConnReset,
	egress.Closed:         job.ConnClosed,
	egress.Truncated:      job.ResponseTruncated,
	egress.HeaderTooLarge: job.HeaderTooLarge,
	egress.Protocol:       job.ProtocolError,
	egress.Canceled:       job.Internal,
}

// clockError is by how much a connection's clock may run ahead of ours.
const clockError = time.Millisecond

// fail records why an attempt with this time limit failed.
func (o *Outcome) fail(err error, limit time.Duration) {
	o.Err = err
	e, ok := errors.AsType[*egress.Error](err)
	if !ok {
		o.Class, o.NoRetry = job.Internal, true
		return
	}
	o.Class, o.MaybeExecuted, o.NoRetry = classes[e.Cause], e.Sent, e.Cause == egress.Unsendable
	if limit > 0 && o.Took >= limit-clockError {
		switch {
		case errors.Is(err, errNoRoom):
			o.Err = &lateError{fmt.Sprintf("no memory free for the answer within %v", limit), err}
		case e.Cause == egress.Timeout:
			o.Err = &lateError{fmt.Sprintf("no whole answer within %v", limit), err}
		case e.Cause == egress.ConnectTimeout:
			o.Err = &lateError{fmt.Sprintf("no connection within %v", limit), err}
		}
	}
}

// Retryable reports whether another attempt at the same call may end better: there was no whole
// answer, or it is a 5xx, 408, 425 or 429, and nothing speaks against it.
func (o Outcome) Retryable() bool {
	switch {
	case o.NoRetry || o.Class.Final():
		return false
	case o.Class != "":
		return true
	}
	switch o.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return o.Status >= 500 && o.Status <= 599
}

// Reason says in words why the attempt failed: the text of the error, or the status.
func (o Outcome) Reason() string {
	if o.Err != nil {
		return words(o.Err)
	}
	return "upstream returned " + strconv.Itoa(o.Status)
}

// Canceled reports whether the attempt ended because its context was cancelled, as at a shutdown. It
// says nothing about the target then.
func (o Outcome) Canceled() bool {
	e, ok := errors.AsType[*egress.Error](o.Err)
	return ok && e.Cause == egress.Canceled
}

// patience is how long a target may take for a connection until it counts as one that cannot be reached: when the first
// packet is lost, the next one goes out after a second (RFC 6298, 2.1). The caller of a job may allow less.
const patience = time.Second

// unreachable reports whether no connection to the target came about. One that came about earlier in the attempt, as
// before a redirect, shows that it can.
func (o Outcome) unreachable() bool {
	switch o.Class {
	case job.ConnectRefused, job.DNS, job.TLS:
		return !o.MaybeExecuted
	case job.ConnectTimeout:
		return !o.MaybeExecuted && o.Took >= patience
	}
	return false
}

// learnsNothing reports whether the attempt says nothing about the pace that the target wants.
func (o Outcome) learnsNothing() bool {
	return o.Class == job.Internal || o.Class == job.BlockedTarget || errors.Is(o.Err, errNoRoom)
}
