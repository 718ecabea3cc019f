package pace

import (
	"net/http"
	"strings"
	"time"
)

// Signal is what one answer of a target says about pace. The zero Signal says nothing.
type Signal struct {
	// Status is the answer's HTTP status; 0 if there was no answer.
	Status int
	// Failed tells that the attempt failed in a way that a later one may not.
	Failed bool
	// RetryAfter is when the target wants to be asked again. It is read from failed attempts only.
	RetryAfter RetryAfter
	// NoRetry tells that the target wants no other attempt at this job.
	NoRetry bool

	// RPS is how many dispatches a second the target wants from all tenants together; 0 is as few as
	// possible.
	RPS Hint[float64]
	// MaxConcurrent is how many open dispatches the target wants; at least 1.
	MaxConcurrent Hint[int]
	// Utilization is how full the target says its cache is, 1 being full: an ORCA load report.
	Utilization Hint[float64]
	// AccountQueue tells whether the target wants a queue for each tenant.
	AccountQueue Hint[bool]
	// SlowStart tells how the target wants to be met the next time it starts from nothing.
	SlowStart Hint[bool]
	// MaxBacklog is how much unfinished work for it the target wants to be kept here; 0 for any.
	MaxBacklog Hint[int]

	// Unreachable tells that no connection to the target came about.
	Unreachable bool
	// Overload is what the answer to a direct call says about others. ReadSignal does not read it: what is queued
	// has a pace for that.
	Overload Overload
}

// ReadSignal reads the signal of an answer with its status and headers. failed is the caller's
// judgement whether it is worth another attempt. now is when the answer came; it stands in for a
// missing Date header.
//
// The reset times of a rate limit count on a 429 only: many targets send them with every answer,
// and on any other one they do not say when to come back.
//
// Of our own headers the X-Aqueduct name counts before its X-Aquifer alias, of several values the
// lower or more careful one, and what cannot be read is ignored.
func ReadSignal(status int, failed bool, h http.Header, now time.Time) Signal {
	s := Signal{Status: status, Failed: failed}
	if speaks(h) {
		s.hints(h)
	}
	if failed {
		s.RetryAfter = comeBack(status, h, now)
	}
	return s
}

// comeBack reads when the target wants to be asked again.
func comeBack(status int, h http.Header, now time.Time) RetryAfter {
	if status == http.StatusTooManyRequests {
		return ParseRetryAfter(h, now)
	}
	return retryAfter(h, now)
}

// speaks reports whether an answer has any header of our protocol, or a load report. Most have none.
func speaks(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Aqu") || name == orcaHeader {
			return true
		}
	}
	return false
}

// hints reads the headers of our protocol, and a load report.
func (s *Signal) hints(h http.Header) {
	s.NoRetry = hint(h, "No-Retry", exactly, either).Value
	s.RPS = hint(h, "Rps", decimal, lower)
	s.MaxConcurrent = hint(h, "Max-Concurrent", positive, lower)
	s.Utilization = utilization(h)
	s.AccountQueue = hint(h, "Account-Queue", enabled, either)
	s.SlowStart = hint(h, "Slow-Start", exactly, either)
	s.MaxBacklog = hint(h, "Max-Backlog", whole, tighter)
}

// succeeded tells that the target did its part.
func (s *Signal) succeeded() bool { return s.Status != 0 && !s.Failed }

// rate is the pace that the answer asks for, and whether it asks for any.
func (s *Signal) rate() (rps float64, ok bool) {
	if s.RPS.Given() {
		return max(s.RPS.Value, MinRPS), true
	}
	if s.Utilization.Given() {
		return rateAt(s.Utilization.Value)
	}
	return 0, false
}
