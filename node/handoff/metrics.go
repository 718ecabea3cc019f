package handoff

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count what both ends of a hand-over do. They are safe for concurrent use.
type Metrics struct {
	given, kept, taken, refused prometheus.Counter
	doubt                       prometheus.Gauge
	give, take                  prometheus.Observer
}

// NewMetrics returns metrics that r takes; nil for nobody.
func NewMetrics(r prometheus.Registerer) *Metrics {
	auto := promauto.With(r)
	jobs := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "aquifer_handoff_jobs_total",
		Help: "Jobs of hand-overs, by what became of them. given: another node has it now; kept: it was to be given and stays " +
			"here; taken: it has come from another node; refused: another node offered it and it was not taken.",
	}, []string{"result"})
	seconds := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "aquifer_handoff_batch_seconds",
		Help:    "Time that a batch of a hand-over took: give, until the other node has answered; take, until all of it is stored.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"end"})
	return &Metrics{
		given: jobs.WithLabelValues("given"), kept: jobs.WithLabelValues("kept"),
		taken: jobs.WithLabelValues("taken"), refused: jobs.WithLabelValues("refused"),
		give: seconds.WithLabelValues("give"), take: seconds.WithLabelValues("take"),
		doubt: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_handoff_jobs_in_doubt",
			Help: "Jobs that another node may have got of this one. Nobody runs them here until it is known, or patience ends.",
		}),
	}
}

// observed notes how long something took since it began.
func observed(o prometheus.Observer, began time.Time) { o.Observe(time.Since(began).Seconds()) }
