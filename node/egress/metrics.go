package egress

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label result.
const (
	dialOK      = "ok"
	dialFailed  = "failed"
	dialBlocked = "blocked"
)

type metrics struct {
	connections prometheus.Gauge
	dials       *prometheus.CounterVec
	left        prometheus.Counter
}

// newMetrics registers with r unless it is nil.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_egress_connections",
			Help: "Open outgoing connections, idle ones included.",
		}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_egress_dials_total",
			Help: "Attempts to connect: ok, failed, or blocked by the egress guard.",
		}, []string{"result"}),
		left: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_egress_silent_total",
			Help: "Times the connections to a host were left because one brought no answer.",
		}),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.connections), r.Register(m.dials), r.Register(m.left))
}
