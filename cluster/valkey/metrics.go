package valkey

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// metrics count what is asked of Valkey.
type metrics struct {
	total                  atomic.Int64 // failures, of all calls
	failures               *prometheus.CounterVec
	cached, asked, guessed prometheus.Counter
}

func newMetrics(r prometheus.Registerer, t *tenants, b *cluster.Board) *metrics {
	auto := promauto.With(r)
	placed := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_cluster_placements_total",
		Help: "Tenants whose owner was asked for, by who knew it: cache, valkey, or nobody, when the ranking decides.",
	}, []string{"from"})
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_cluster_active_tenants",
		Help: "Active tenants that this node owns.",
	}, func() float64 { return float64(t.own()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_cluster_stale_since_timestamp_seconds",
		Help: "Since when this node goes on with what it knew last, as no node reaches Valkey, in Unix time; 0 if it does not.",
	}, func() float64 {
		if since := b.Roster().Stale; !since.IsZero() {
			return float64(since.UnixMilli()) / 1000
		}
		return 0
	})
	m := &metrics{
		failures: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_cluster_valkey_failures_total",
			Help: "Calls of the Valkey that holds the cluster together that failed or took too long.",
		}, []string{"call"}),
		cached: placed.WithLabelValues("cache"), asked: placed.WithLabelValues("valkey"), guessed: placed.WithLabelValues("nobody"),
	}
	for _, call := range []string{"beat", "leave", "assign", "renew", "release"} {
		m.failures.WithLabelValues(call)
	}
	return m
}

func (m *metrics) failed(call string) {
	m.total.Add(1)
	m.failures.WithLabelValues(call).Inc()
}
