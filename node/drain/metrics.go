package drain

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label result.
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

type metrics struct {
	batches *prometheus.CounterVec
	flushed prometheus.Counter
	cleared prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	m := metrics{
		batches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_drain_batches_total",
			Help: "Batches of the drain ledger by whether the sink has taken them; one that fails is tried again.",
		}, []string{"result"}),
		flushed: f.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_drain_flushed_total",
			Help: "Ended jobs that the drain sink was told of.",
		}),
		cleared: f.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_drain_cleared_total",
			Help: "Ended jobs that were removed because the node was handed over.",
		}),
	}
	m.batches.WithLabelValues(resultOK)
	m.batches.WithLabelValues(resultFailed)
	return m
}

// count counts a batch of n entries.
func (m metrics) count(n int, err error) {
	if err != nil {
		m.batches.WithLabelValues(resultFailed).Inc()
		return
	}
	m.batches.WithLabelValues(resultOK).Inc()
	m.flushed.Add(float64(n))
}
