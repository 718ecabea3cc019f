package pace

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Hint is a value that a target gave in a header of its answer.
type Hint[T any] struct {
	Value T
	// Header is the canonical name of the header, one of a small fixed set; empty if none gave a value.
	Header string
}

// Given tells that a header gave a value.
func (h Hint[T]) Given() bool { return h.Header != "" }

// hint reads a header of our own protocol: what can be read of its X-Aqueduct name, and if that is
// nothing, of its X-Aquifer alias. What cannot be read counts as not there. Of several values merge
// says which one counts; a header that stands twice is a list, as is one with commas (RFC 9110, 5.3).
func hint[T any](h http.Header, name string, read func(string) (T, bool), merge func(a, b T) T) Hint[T] {
	for _, prefix := range [...]string{"X-Aqueduct-", "X-Aquifer-"} {
		var found Hint[T]
		for _, list := range h.Values(prefix + name) {
			for s := range strings.SplitSeq(list, ",") {
				v, ok := read(trim(s))
				switch {
				case !ok:
				case found.Given():
					found.Value = merge(found.Value, v)
				default:
					found = Hint[T]{v, prefix + name}
				}
			}
		}
		if found.Given() {
			return found
		}
	}
	return Hint[T]{}
}

// decimal reads a finite number without a sign, in decimal notation.
func decimal(s string) (float64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' || strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// whole reads a whole number of 0 or more.
func whole(s string) (int, bool) {
	n, ok := digits(s)
	return int(min(n, math.MaxInt)), ok
}

// positive reads a whole number of 1 or more.
func positive(s string) (int, bool) {
	n, ok := whole(s)
	return n, ok && n > 0
}

// exactly reads true and false.
func exactly(s string) (yes, ok bool) { return s == "true", s == "true" || s == "false" }

// enabled reads a switch.
func enabled(s string) (on, ok bool) {
	if s == "enabled" || s == "disabled" {
		return s == "enabled", true
	}
	return exactly(s)
}

func lower[T int | float64](a, b T) T { return min(a, b) }

// tighter is the lower of two bounds, of which 0 is none at all.
func tighter(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// either is the more careful of two words: yes, slow down; yes, keep apart; yes, leave it.
func either(a, b bool) bool { return a || b }
