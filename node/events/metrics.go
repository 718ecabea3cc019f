package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	open    prometheus.Gauge
	dropped prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	return metrics{
		open: f.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_event_subscriptions",
			Help: "Open subscriptions to the events of jobs.",
		}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_events_dropped_total",
			Help: "Progress events that a slow listener lost.",
		}),
	}
}
