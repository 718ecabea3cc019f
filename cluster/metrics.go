package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// forwarderMetrics count what became of requests on their way. All but seconds are values of the label
// result of one counter.
type forwarderMetrics struct {
	relayed, broken, gone                     prometheus.Counter
	unreachable, unanswered, full, distrusted prometheus.Counter
	redirected, misplaced, unsettled, nobody  prometheus.Counter
	seconds                                   prometheus.Histogram
}

func newForwarderMetrics(reg prometheus.Registerer, owners *Owners, waiting *waiting) *forwarderMetrics {
	auto := promauto.With(reg)
	result := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_cluster_forwards_total",
		Help: "Requests on their way to the node that answers them, by what became of them; a request that another node had to " +
			"be asked for counts more than once. relayed: answered; broken: the answer was cut short; gone: the client " +
			"left; unreachable: the member could not be connected to; unanswered: the member may have taken it (504); " +
			"full: too much waited; distrusted: the member refuses this node's signature; redirected: the member named " +
			"another owner; misplaced: this node named another owner; unsettled: the node does not know its cluster, or is not believed there; " +
			"nobody: no member could take it (502).",
	}, []string{"result"})
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_cluster_pruned_members",
		Help: "Members that are passed over because they could not be reached.",
	}, func() float64 { return float64(len(owners.Pruned())) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aquifer_cluster_forwards_waiting",
		Help: "Forwarded requests that wait for an answer.",
	}, func() float64 { return float64(waiting.count()) })
	return &forwarderMetrics{
		relayed: result.WithLabelValues("relayed"), broken: result.WithLabelValues("broken"), gone: result.WithLabelValues("gone"),
		unreachable: result.WithLabelValues("unreachable"), unanswered: result.WithLabelValues("unanswered"),
		full: result.WithLabelValues("full"), distrusted: result.WithLabelValues("distrusted"),
		redirected: result.WithLabelValues("redirected"), misplaced: result.WithLabelValues("misplaced"),
		unsettled: result.WithLabelValues("unsettled"), nobody: result.WithLabelValues("nobody"),
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "aquifer_cluster_forward_seconds",
			Help:    "Time from sending a request to another node to the header of its answer, or to the failure.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 15},
		}),
	}
}
