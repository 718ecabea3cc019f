package pace

import (
	"math"
	"time"
)

// MinBackoff is the shortest time to wait after a failure, unless the target asks to be called again
// at once.
const MinBackoff = time.Second

// Backoff is how long to wait after a failure that had so many others before it: 1, 2, 4, 8 s and so
// on up to limit, plus up to a tenth of it. draw, from 0 to 1, says how much of that tenth; the
// caller draws it at random.
func Backoff(before int, limit time.Duration, draw float64) time.Duration {
	wait := limit
	if shift := max(before, 0); shift <= 33 { // 2^34 s do not fit a Duration
		wait = min(MinBackoff<<shift, limit)
	}
	return jittered(max(wait, 0), draw)
}

// jittered adds up to a tenth of d.
func jittered(d time.Duration, draw float64) time.Duration {
	if !(draw > 0) { // also NaN
		return d
	}
	extra := time.Duration(float64(d) / 10 * min(draw, 1))
	if extra > math.MaxInt64-d {
		return math.MaxInt64
	}
	return d + extra
}
