package pace

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// RetryAfter is when a target wants to be asked again.
type RetryAfter struct {
	// Wait is how long from the answer on, in whole seconds and never negative. It is the target's
	// word and may be absurdly long: see Or.
	Wait time.Duration
	// Raw is the target's own words, also when they could not be read; empty if it had none. It is
	// valid UTF-8 and at most 128 bytes long.
	Raw string
	// Header is the canonical name of the header that Wait was read from; empty if none could be read.
	Header string
	// OK tells that Wait was read. Without it there is no hint, and the caller's own back-off applies.
	OK bool
}

// Or is how long to wait: what the target says, up to limit, or else the back-off, if it says nothing.
func (r RetryAfter) Or(backoff, limit time.Duration) time.Duration {
	if !r.OK {
		return backoff
	}
	return r.UpTo(limit).Wait
}

// UpTo is the hint with a wait that is no longer than limit.
func (r RetryAfter) UpTo(limit time.Duration) RetryAfter {
	r.Wait = min(r.Wait, limit)
	return r
}

// maxRaw bounds RetryAfter.Raw, which is kept with each attempt.
const maxRaw = 128

// ParseRetryAfter reads when to come back from an answer's headers: Retry-After (RFC 9110, 10.2.3),
// and if it is absent or unreadable, the first of
//
//   - RateLimit-Reset and X-RateLimit-Reset: seconds, or a Unix time in seconds or milliseconds
//   - X-RateLimit-Reset-Requests and X-RateLimit-Reset-Tokens: durations such as 6m5s, the longer one
//
// Parts of a second are rounded up. A point in time counts from the answer's own Date header, from
// now if it has none; one that has passed is a wait of MinBackoff, as is a reset in 0 seconds. Only
// "Retry-After: 0" means at once.
func ParseRetryAfter(h http.Header, now time.Time) RetryAfter {
	r := retryAfter(h, now)
	if r.OK {
		return r
	}
	for _, read := range []func(http.Header, time.Time) RetryAfter{resetTime, resetDuration} {
		if reset := read(h, now); reset.OK {
			return reset
		}
	}
	return r
}

func retryAfter(h http.Header, now time.Time) RetryAfter {
	value, ok := single(h, "Retry-After")
	r := RetryAfter{Raw: raw(value)}
	if !ok {
		return r
	}
	if n, isNumber := digits(value); isNumber {
		r.Wait, r.OK = times(n, time.Second), true
	} else if at, isDate := httpDate(value); isDate {
		r.Wait, r.OK = until(at, answered(h, now)), true
	}
	if r.OK {
		r.Header = "Retry-After"
	}
	return r
}

// epoch tells a Unix time from a number of seconds: as seconds it would be 31 years.
const epoch = 1_000_000_000

func resetTime(h http.Header, now time.Time) RetryAfter {
	for _, name := range [...]string{"Ratelimit-Reset", "X-Ratelimit-Reset"} {
		value, _ := single(h, name)
		n, ok := digits(value)
		if !ok {
			continue
		}
		r := RetryAfter{Raw: raw(value), Header: name, OK: true}
		switch {
		case n < epoch:
			r.Wait = max(times(n, time.Second), MinBackoff)
		case n < 1000*epoch:
			r.Wait = until(time.Unix(n, 0), answered(h, now))
		default:
			r.Wait = until(time.UnixMilli(n), answered(h, now))
		}
		return r
	}
	return RetryAfter{}
}

func resetDuration(h http.Header, _ time.Time) RetryAfter {
	var longest RetryAfter
	for _, name := range [...]string{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Reset-Tokens"} {
		value, _ := single(h, name)
		var wait time.Duration
		if n, ok := digits(value); ok {
			wait = times(n, time.Second)
		} else if d, err := time.ParseDuration(value); err == nil && value[0] != '-' && value[0] != '+' {
			wait = roundUp(d)
		} else {
			continue
		}
		if wait = max(wait, MinBackoff); !longest.OK || wait > longest.Wait {
			longest = RetryAfter{Wait: wait, Raw: raw(value), Header: name, OK: true}
		}
	}
	return longest
}

// single returns the trimmed value of a header that stands exactly once. Of one that stands more
// often it returns all values, joined as RFC 9110 does, and false.
func single(h http.Header, name string) (string, bool) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", false
	case 1:
		return trim(values[0]), true
	default:
		return strings.Join(values, ", "), false
	}
}

// trim removes the optional white space around a header's value (RFC 9110, 5.6.3).
func trim(s string) string { return strings.Trim(s, " \t") }

// digits reads a number without sign, point or anything else; one that is too large is as large as
// can be.
func digits(s string) (int64, bool) {
	var n int64
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if d := int64(c - '0'); n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
		} else {
			n = 10*n + d
		}
	}
	return n, s != ""
}

// times returns n units of time, the longest Duration if it would be longer.
func times(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}

// httpDate reads the three forms of RFC 9110, 5.6.7, and the first one with the offset of GMT in place of its name, to the
// letter but for which day of the week it is: the date says that.
func httpDate(s string) (time.Time, bool) {
	for _, layout := range [...]string{
		http.TimeFormat, "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC, "Mon, 02 Jan 2006 15:04:05 +0000",
	} {
		if t, err := time.Parse(layout, s); err == nil && behindWeekday(t.Format(layout)) == behindWeekday(s) {
			return t, true
		}
	}
	return time.Time{}, false
}

// behindWeekday is what a date has behind the name of its day.
func behindWeekday(date string) string { return date[max(strings.IndexByte(date, ' '), 0):] }

// answered is when the target wrote its answer, by its own clock if it tells.
func answered(h http.Header, now time.Time) time.Time {
	if value, ok := single(h, "Date"); ok {
		if t, ok := httpDate(value); ok {
			return t
		}
	}
	return now
}

// until is the time from one point to another in whole seconds, at least MinBackoff. Sub, and so
// until, is as long as can be when the true time is longer.
func until(at, from time.Time) time.Duration { return max(roundUp(at.Sub(from)), MinBackoff) }

func roundUp(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 && d <= math.MaxInt64-time.Second {
		d += time.Second - rest
	}
	return d
}

// raw makes a header's value fit for a record.
func raw(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxRaw)], "")
}
