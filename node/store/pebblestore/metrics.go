package pebblestore

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a store tells Prometheus.
type metrics struct {
	registerer prometheus.Registerer // nil keeps none
	all        []prometheus.Collector
	batches    prometheus.Counter
	changes    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		registerer: r,
		batches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_store_batches_total", Help: "Batches committed to the store.",
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "aquifer_store_changes_total", Help: "Changes of jobs in these batches.",
		}),
	}
}

// register makes the metrics of an open store known.
func (m *metrics) register(s *Store) error {
	if m.registerer == nil {
		return nil
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	count := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
	}
	m.all = []prometheus.Collector{
		m.batches, m.changes,
		gauge("aquifer_wal_sync_lag_seconds", "How long the oldest acknowledged change has been waiting for the disk.",
			func() float64 { return s.Usage().SyncLag.Seconds() }),
		gauge("aquifer_store_bytes", "Size of the store on disk.",
			func() float64 { return float64(s.Usage().Bytes) }),
		gauge("aquifer_store_disk_full", "1 while the disk is full and new jobs are refused.",
			func() float64 { return number(s.volume.full()) }),
		gauge("aquifer_store_write_stalled", "1 while all changes wait until flushes or compactions have caught up.",
			func() float64 { return number(s.volume.stalls.since.Load() != 0) }),
		count("aquifer_store_write_stalls_total", "Times that all changes had to wait for flushes or compactions.",
			func() float64 { return float64(s.volume.stalls.count.Load()) }),
		count("aquifer_store_corrupt_records_total", "Records that cannot be read. They are left out and kept, and logged.",
			func() float64 { return float64(s.unreadable.count.Load()) }),
		count("aquifer_store_slow_writes_total", "Writes and syncs that took the disk longer than a second.",
			func() float64 { return float64(s.volume.slow.Load()) }),
	}
	for i, c := range m.all {
		if err := m.registerer.Register(c); err != nil {
			m.all = m.all[:i]
			m.unregister()
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) committed(changes int) {
	m.batches.Inc()
	m.changes.Add(float64(changes))
}

func (m *metrics) unregister() {
	for _, c := range m.all {
		m.registerer.Unregister(c)
	}
}
