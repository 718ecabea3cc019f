package registry

import (
	"log/slog"
	"math/bits"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the label result.
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

type metrics struct {
	pings  *prometheus.CounterVec
	lastOK prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	m := metrics{
		pings: f.NewCounterVec(prometheus.CounterOpts{
			Name: "aquifer_registry_pings_total",
			Help: "Reports to the control plane by the state they told, and whether it took them.",
		}, []string{"state", "result"}),
		lastOK: f.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_registry_last_ok_timestamp_seconds",
			Help: "When the control plane last took a report, in Unix time; 0 for never.",
		}),
	}
	for _, s := range []State{Active, Draining, Offline} {
		m.pings.WithLabelValues(string(s), resultOK)
		m.pings.WithLabelValues(string(s), resultFailed)
	}
	return m
}

func (m metrics) count(s State, err error) {
	if err != nil {
		m.pings.WithLabelValues(string(s), resultFailed).Inc()
		return
	}
	m.pings.WithLabelValues(string(s), resultOK).Inc()
	m.lastOK.SetToCurrentTime()
}

// history is how the pings of one state went. It logs changes, and the failures whose number in a row is a
// power of two: the cause may change while a control plane is away, and a night of it is a dozen lines.
type history struct {
	log      *slog.Logger
	told     bool // the control plane knows the state
	failures int  // in a row
}

func (h *history) add(err error) {
	if err != nil {
		h.failures++
		if bits.OnesCount(uint(h.failures)) == 1 {
			h.log.Warn("not registered", "error", err, "failures", h.failures)
		}
		return
	}
	if !h.told || h.failures > 0 {
		h.log.Info("registered", "failures", h.failures)
	}
	h.told, h.failures = true, 0
}
