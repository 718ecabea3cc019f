package main

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// stages are the latencies of a run, from the moment a job was meant to be sent: a generator that
// falls behind its schedule does not hide the wait.
type stages struct {
	accept   *hdrhistogram.Histogram // start to acknowledgement
	dispatch *hdrhistogram.Histogram // acknowledgement to call at the target
	webhook  *hdrhistogram.Histogram // call at the target to webhook at the receiver
	endToEnd *hdrhistogram.Histogram // start to webhook

	accepted  int
	delivered int
	first     int64         // the first start, ns of the shared clock
	intake    time.Duration // first start to last acknowledgement
	span      time.Duration // first start to last webhook
}

func newStages() stages {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }
	return stages{accept: h(), dispatch: h(), webhook: h(), endToEnd: h()}
}

// intake measures the acknowledgement of the jobs from..to-1. It may be called when their load has
// ended, while the observer goes on.
func (l *ledger) intake(from, to int) stages {
	s := newStages()
	var last int64
	s.first = math.MaxInt64
	for i := from; i < to; i++ {
		n := &l.entries[i]
		if n.accepted == 0 {
			continue
		}
		record(s.accept, n.accepted-n.start)
		s.accepted++
		s.first, last = min(s.first, n.start), max(last, n.accepted)
	}
	s.intake = max(0, time.Duration(last-s.first))
	return s
}

// stages measures the jobs from..to-1, when load and observer have ended.
func (l *ledger) stages(from, to int) stages {
	s := l.intake(from, to)
	var last int64
	for i := from; i < to; i++ {
		n := &l.entries[i]
		if n.accepted != 0 && n.called != 0 {
			record(s.dispatch, n.called-n.accepted)
		}
		if n.called != 0 && n.delivered != 0 {
			record(s.webhook, n.delivered-n.called)
		}
		if n.accepted != 0 && n.delivered != 0 {
			record(s.endToEnd, n.delivered-n.start)
			s.delivered++
			last = max(last, n.delivered)
		}
	}
	s.span = max(0, time.Duration(last-s.first))
	return s
}

// record counts a call that comes before its acknowledgement was read as no wait at all.
func record(h *hdrhistogram.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns, 0), int64(time.Hour))) // within bounds by the clamp
}

// throughput is in jobs per second, from submission to webhook.
func (s stages) throughput() float64 { return perSecond(s.delivered, s.span) }

// acceptRate is in jobs per second, from submission to acknowledgement.
func (s stages) acceptRate() float64 { return perSecond(s.accepted, s.intake) }

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func (s stages) merge(other stages) {
	s.accept.Merge(other.accept)
	s.dispatch.Merge(other.dispatch)
	s.webhook.Merge(other.webhook)
	s.endToEnd.Merge(other.endToEnd)
}

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func quantilesOf(h *hdrhistogram.Histogram) quantiles {
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return quantiles{
		P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)),
		P99: ms(h.ValueAtQuantile(99)), Max: ms(h.Max()),
	}
}

// median returns the middle of values, the mean of the two in the middle if their number is even, and
// 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}
