package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests *prometheus.CounterVec   // by route and status
	seconds  *prometheus.HistogramVec // by route
	streams  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	auto := promauto.With(reg)
	return &metrics{
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_http_requests_total",
			Help: "Requests answered, by route and status. A stream counts when it ends.",
		}, []string{"route", "status"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "aquifer_http_request_duration_seconds",
			Help:    "Time from the request's headers to the end of its answer. A stream lasts as long as its client stays.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}, []string{"route"}),
		streams: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_http_streams",
			Help: "Streams that are open.",
		}),
	}
}

// count returns a handler that serves one route and counts its answers. A client that has left may only have closed its
// half of the connection, and read on: it gets no answer that it could take for the real one.
func (m *metrics) count(route string, serve endpoint) http.HandlerFunc {
	seconds := m.seconds.WithLabelValues(route)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		status := serve(w, r)
		seconds.Observe(time.Since(start).Seconds())
		m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
		if status == statusGone {
			panic(http.ErrAbortHandler) //nolint:forbidigo // so a server is told to break a connection off
		}
	}
}
