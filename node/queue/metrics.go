package queue

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
)

// metrics are a queue's own, labelled by line. Those of single targets are collector's.
type metrics struct {
	wait         prometheus.Histogram
	failedReads  prometheus.Counter
	failedRunner prometheus.Counter
	hints        *prometheus.CounterVec
	trips        *prometheus.CounterVec // of calls alone, as only calls may go past a queue
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
	m.hints = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_target_hints_total", ConstLabels: line,
		Help: "What targets said about their pace, by the header that said it.",
	}, []string{"header"})
	for _, header := range [...]string{"X-Aqueduct-Rps", "X-Aqueduct-Max-Concurrent", "Endpoint-Load-Metrics", "Retry-After"} {
		m.hints.WithLabelValues(header)
	}
	m.trips = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_breaker_trips_total",
		Help: "Times that the breaker of a target opened, by its kind.",
	}, []string{"kind"})
	for _, kind := range pace.BreakerKinds() {
		m.trips.WithLabelValues(kind.String())
	}
	if q.cfg.Registerer == nil {
		return m
	}
	if q.cfg.Line == job.Calls {
		q.cfg.Registerer.MustRegister(m.trips)
	}
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aquifer_queue_" + name, Help: help, ConstLabels: line},
			func() float64 { return float64(value()) })
	}
	c := &q.counts
	q.cfg.Registerer.MustRegister(m.wait, m.failedReads, m.failedRunner, m.hints, newCollector(q),
		gauge("backlog", "Unfinished work, wherever it is.", c.backlog.Load),
		gauge("waiting", "Work that waits for its turn; not for a retry.", c.waiting.Load),
		gauge("in_flight", "Slots of targets that are taken.", c.inFlight.Load),
		gauge("targets", "Targets with unfinished work.", c.targets.Load),
		gauge("lanes", "Lanes with unfinished work.", c.lanes.Load),
		gauge("held_bytes", "Bytes of jobs kept in memory while they wait.", q.held.Load),
	)
	return m
}

// heard counts the hints of an answer. Their headers are a closed set.
func (m *metrics) heard(s *pace.Signal) {
	for _, header := range [...]string{
		s.RPS.Header, s.MaxConcurrent.Header, s.Utilization.Header, s.AccountQueue.Header, s.SlowStart.Header,
		s.MaxBacklog.Header, s.RetryAfter.Header,
	} {
		if header != "" {
			m.hints.WithLabelValues(header).Inc()
		}
	}
}
