package results

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What becomes of a claim, and of a record.
const (
	claimed   = "claimed"
	duplicate = "duplicate"
	contended = "contended"
	failed    = "failed"
	written   = "written"
	dropped   = "dropped"
)

type metrics struct {
	claims, records *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, waiting *backlog) *metrics {
	auto := promauto.With(r)
	m := &metrics{
		claims: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_remote_claims_total",
			Help: "Idempotency keys that were claimed in Valkey, by outcome: claimed; duplicate: a node of the region has its job; " +
				"contended: another node was just accepting it; failed: Valkey did not answer, and the node decided alone.",
		}, []string{"outcome"}),
		records: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_remote_records_total",
			Help: "What keys became and jobs answered, by whether Valkey has it: written, or dropped, whole or without the answer, because too much waited.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{claimed, duplicate, contended, failed} {
		m.claims.WithLabelValues(outcome)
	}
	m.records.WithLabelValues(written)
	m.records.WithLabelValues(dropped)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_remote_records_waiting_bytes",
		Help: "What keys became and jobs answered that is to be written to Valkey.",
	}, func() float64 { return float64(waiting.size()) })
	return m
}
