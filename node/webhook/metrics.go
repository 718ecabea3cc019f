package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// metrics has the counter of each state that an attempt may leave a delivery in.
type metrics map[job.WebhookState]prometheus.Counter

func newMetrics(r prometheus.Registerer) metrics {
	attempts := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_webhook_attempts_total",
		Help: "Attempts to deliver a result, by the state that they left the delivery in; pending is to be tried again.",
	}, []string{"state"})
	m := make(metrics)
	for _, s := range []job.WebhookState{job.WebhookPending, job.WebhookDelivered, job.WebhookRejected, job.WebhookFailed} {
		m[s] = attempts.WithLabelValues(string(s))
	}
	return m
}

func (m metrics) attempt(s job.WebhookState) { m[s].Inc() }
