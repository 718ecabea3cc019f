package gossip

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	dropped  *prometheus.CounterVec
	changes  *prometheus.CounterVec
	unread   prometheus.Gauge
	strained prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) metrics {
	auto := promauto.With(r)
	return metrics{
		dropped: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_gossip_dropped_total",
			Help: "Packets, streams and messages of the gossip that were not taken, by reason.",
		}, []string{"reason"}),
		changes: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_gossip_changes_total",
			Help: "Members that came and went, as this node saw it.",
		}, []string{"change"}),
		unread: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_gossip_unreadable_members",
			Help: "Nodes that gossip but are left out, since what they tell of themselves cannot be read.",
		}),
		strained: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_gossip_strain",
			Help: "How badly this node hears of the others, 0 to 3; it slows its probes down so as not to accuse them falsely.",
		}),
	}
}
