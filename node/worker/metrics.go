package worker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts attempts. Both labels are closed sets.
type metrics struct{ attempts *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{attempts: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_attempts_total",
		Help: "Attempts at targets, by what became of the job and by why there was no answer, if there was none.",
	}, []string{"outcome", "error"})}
}

func (m metrics) attempt(d decision) {
	outcome := "retried"
	if d.end != nil {
		outcome = string(d.end.Status)
	}
	m.attempts.WithLabelValues(outcome, string(d.attempt.Error)).Inc()
}
