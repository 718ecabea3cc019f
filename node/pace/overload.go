package pace

import (
	"net/http"
	"time"
)

// Overload is what the answer to a direct call says about those that follow. The zero Overload says nothing.
type Overload struct {
	Kind   BreakerKind // BreakerClosed: they may be made
	Reason BreakerReason
	// RetryAfter is when the target wants to be asked again; 0 if it does not say, or at once. It is the
	// target's word and may be absurdly long.
	RetryAfter time.Duration
}

// ReadOverload reads it from the status and the headers of the answer; now is when it came. These tell of overload, and
// the first of them counts:
//
//	Endpoint-Load-Metrics     a cache that is full to 70 % or more       BreakerReroute
//	X-Aqueduct-Reroute-Codes  a list with the status; 503 if absent      BreakerReroute
//	X-Aqueduct-Queue-Codes    a list with the status; 429 if absent      BreakerQueue
//	X-Aqueduct-Queue-Active   true                                       BreakerQueue
//
// A list has statuses of three digits from 100 to 599 and classes from 1xx to 5xx. It is that of this answer alone.
func ReadOverload(status int, h http.Header, now time.Time) Overload {
	o := Overload{Reason: Overloaded}
	switch {
	case relief(utilization(h)), listed(h, "Reroute-Codes", status, http.StatusServiceUnavailable):
		o.Kind = BreakerReroute
	case listed(h, "Queue-Codes", status, http.StatusTooManyRequests):
		o.Kind = BreakerQueue
	case hint(h, "Queue-Active", exactly, either).Value:
		o.Kind, o.Reason = BreakerQueue, QueueActive
	default:
		return Overload{}
	}
	o.RetryAfter = comeBack(status, h, now).Wait
	return o
}

// relief tells that a load report asks for it: the cache is full to 70 % or more.
func relief(fill Hint[float64]) bool {
	_, ok := rateAt(fill.Value)
	return fill.Given() && ok
}

// listed tells whether a status is in the list of a header, or is the one that counts if there is no list that can be
// read.
func listed(h http.Header, name string, status, fallback int) bool {
	list := hint(h, name, func(code string) (match, ok bool) { return covers(code, status) }, either)
	if list.Given() {
		return list.Value
	}
	return status == fallback
}

// covers tells whether an entry of a list stands for a status; ok is false if it cannot be read.
func covers(code string, status int) (match, ok bool) {
	if len(code) != 3 || code[0] < '1' || code[0] > '5' {
		return false, false
	}
	if code[1:] == "xx" {
		return status/100 == int(code[0]-'0'), true
	}
	n, ok := digits(code)
	return int64(status) == n, ok
}
