package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/node/worker"
)

// metrics counts calls. The labels are closed sets.
type metrics struct {
	attempts, fallbacks *prometheus.CounterVec
	relaying            prometheus.Gauge
}

// The outcomes of attempts.
const (
	outcomeCompleted   = "completed"
	outcomeOverloaded  = "overloaded"
	outcomeUnreachable = "unreachable"
	outcomeUntried     = "untried"
)

func newMetrics(r prometheus.Registerer) metrics {
	auto := promauto.With(r)
	m := metrics{
		attempts: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_proxy_attempts_total",
			Help: "Turns past the queue, by what came of them; untried is one that ended before its target was called.",
		}, []string{"outcome"}),
		fallbacks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_proxy_fallbacks_total",
			Help: "Calls whose caller was sent to the stream of a queued job, by reason.",
		}, []string{"reason"}),
		relaying: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_proxy_relay_bytes",
			Help: "Memory set aside for answers of more than 64 KiB that callers are reading.",
		}),
	}
	for _, outcome := range [...]string{outcomeCompleted, outcomeOverloaded, outcomeUnreachable, outcomeUntried} {
		m.attempts.WithLabelValues(outcome)
	}
	for _, reason := range Reasons() {
		m.fallbacks.WithLabelValues(string(reason))
	}
	return m
}

func (m metrics) attempt(a worker.Answer) {
	outcome := outcomeOverloaded
	switch {
	case !a.Tried:
		outcome = outcomeUntried
	case a.Completed:
		outcome = outcomeCompleted
	case a.Class != "":
		outcome = outcomeUnreachable
	}
	m.attempts.WithLabelValues(outcome).Inc()
}

func (m metrics) fallback(r Reason) { m.fallbacks.WithLabelValues(string(r)).Inc() }
