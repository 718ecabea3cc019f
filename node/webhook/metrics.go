package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/node/job"
)

type metrics struct {
	attempts *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{attempts: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_webhook_attempts_total",
		Help: "Attempts to deliver a result, by the state that they left the delivery in; pending is to be tried again.",
	}, []string{"state"})}
	for _, s := range []job.WebhookState{job.WebhookPending, job.WebhookDelivered, job.WebhookRejected, job.WebhookFailed} {
		m.attempts.WithLabelValues(string(s))
	}
	return m
}

func (m metrics) attempt(s job.WebhookState) { m.attempts.WithLabelValues(string(s)).Inc() }
