package inbound

import "github.com/prometheus/client_golang/prometheus"

// Register makes what callers are told known to r.
func (m *Meter) Register(r prometheus.Registerer) {
	gauge := func(name, help string, read func(View) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "aquifer_inbound_" + name, Help: help},
			func() float64 { return read(m.View()) })
	}
	r.MustRegister(
		gauge("rps", "Jobs a second that all callers together are told to hand in at most.",
			func(v View) float64 { return v.AdvertisedRPS }),
		gauge("callers", "Users that came in the last seconds, among whom that is divided.",
			func(v View) float64 { return float64(v.ActiveCallers) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "aquifer_inbound_cuts_total", Help: "Times that the rate was cut because the store or the queue fell behind.",
		}, func() float64 { return float64(m.View().Cuts) }),
	)
}
