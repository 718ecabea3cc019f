package pace

import (
	"net/http"
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
}

// ReadSignal reads the signal of an answer with its status and headers. failed is the caller's
// judgement whether it is worth another attempt. now is when the answer came; it stands in for a
// missing Date header.
//
// The reset times of a rate limit count on a 429 only: many targets send them with every answer,
// and on any other one they do not say when to come back.
func ReadSignal(status int, failed bool, h http.Header, now time.Time) Signal {
	s := Signal{Status: status, Failed: failed, NoRetry: named(h, "No-Retry") == "true"}
	switch {
	case !failed:
	case status == http.StatusTooManyRequests:
		s.RetryAfter = ParseRetryAfter(h, now)
	default:
		s.RetryAfter = retryAfter(h, now)
	}
	return s
}

// named returns a header of our own protocol: the X-Aqueduct one unless it is empty, else its
// X-Aquifer alias.
func named(h http.Header, name string) string {
	if v := trim(h.Get("X-Aqueduct-" + name)); v != "" {
		return v
	}
	return trim(h.Get("X-Aquifer-" + name))
}
