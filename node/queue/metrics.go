package queue

import "github.com/prometheus/client_golang/prometheus"

// metrics are a queue's own. They are labelled by line only: the number of targets has no bound.
type metrics struct {
	wait         prometheus.Histogram
	failedReads  prometheus.Counter
	failedRunner prometheus.Counter
}

func newMetrics(q *Queue) *metrics {
	line := prometheus.Labels{"line": q.cfg.Line.String()}
	m := &metrics{
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "aquifer_queue_wait_seconds", ConstLabels: line,
			Help: "Time from when work joined its lane until its turn came; for work " +
				"that was read back from disk, from when its job was accepted.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		failedReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_queue_failed_reads_total", ConstLabels: line,
			Help: "Readings of a lane from the store that failed and were repeated.",
		}),
		failedRunner: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_queue_panics_total", ConstLabels: line,
			Help: "Turns that ended in a panic.",
		}),
	}
	if q.cfg.Registerer == nil {
		return m
	}
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aquifer_queue_" + name, Help: help, ConstLabels: line},
			func() float64 { return float64(value()) })
	}
	c := &q.counts
	q.cfg.Registerer.MustRegister(m.wait, m.failedReads, m.failedRunner,
		gauge("backlog", "Unfinished work, wherever it is.", c.backlog.Load),
		gauge("waiting", "Work that waits for its turn; not for a retry.", c.waiting.Load),
		gauge("in_flight", "Slots of targets that are taken.", c.inFlight.Load),
		gauge("targets", "Targets with unfinished work.", c.targets.Load),
		gauge("lanes", "Lanes with unfinished work.", c.lanes.Load),
		gauge("held_bytes", "Bytes of jobs kept in memory while they wait.", q.held.Load),
	)
	return m
}
