package main

import (
	"math"
	"slices"
	"time"
)

// from is the index of the first call at or after a moment.
func from(calls []arrival, at int64) int {
	i, _ := slices.BinarySearchFunc(calls, at, func(a arrival, at int64) int {
		if a.at < at {
			return -1
		}
		return 1
	})
	return i
}

// between returns the calls from a moment on, up to another one.
func between(calls []arrival, begin, end int64) []arrival {
	return calls[from(calls, begin):from(calls, end)]
}

// mostInASecond is the largest number of calls in any second, wherever it begins.
func mostInASecond(calls []arrival) int {
	most, first := 0, 0
	for i := range calls {
		for calls[i].at-calls[first].at >= int64(time.Second) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// allowed is how many calls a rate allows in any second: 1 % more than the rate, by which a dispatch
// that came late is made up for, and the one that the second begins with.
func allowed(rps float64) float64 { return math.Floor(rps*1.01 + 1) }

// ratesOf counts the calls in each part of a span from begin on, as calls per second.
func ratesOf(calls []arrival, begin int64, span, part time.Duration) []float64 {
	var list []float64
	for at := time.Duration(0); at+part <= span; at += part {
		n := len(between(calls, begin+int64(at), begin+int64(at+part)))
		list = append(list, float64(n)/part.Seconds())
	}
	return list
}

// late is how many dispatches later than its turn the latest of a newcomer's jobs is called. Where two
// take turns, every second dispatch is the newcomer's, the first of them the second at the latest.
// before is how many calls there had been when the newcomer's jobs were queued; all of them have been
// called.
func late(calls []arrival, before int, newcomer func(seq int) bool) int {
	latest, turns := math.MinInt, 0
	for i, call := range calls {
		if newcomer(call.seq) {
			turns++
			latest = max(latest, (i+1-before)-2*turns)
		}
	}
	return latest
}
