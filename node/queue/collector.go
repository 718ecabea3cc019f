package queue

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// maxSeries bounds how many targets, and how many tenants, have metrics of their own: those with most to do.
const maxSeries = 1000

// collector reads the metrics of single targets and tenants when they are asked for. Nothing is kept for it.
type collector struct {
	q *Queue

	rps, configuredRPS, slots, configuredSlots, backlog, inFlight *prometheus.Desc

	tenantBacklog *prometheus.Desc // nil: tenants have no metrics
}

func newCollector(q *Queue) *collector {
	line := prometheus.Labels{"line": q.cfg.Line.String()}
	of := func(name, label, help string) *prometheus.Desc {
		return prometheus.NewDesc("aquifer_"+name, help, []string{label}, line)
	}
	c := &collector{
		q:               q,
		rps:             of("target_rps", "target", "Dispatches a second that a target gets at present. Of the 1,000 targets with most to do, as all metrics of targets."),
		configuredRPS:   of("target_rps_configured", "target", "Dispatches a second that a target is allowed."),
		slots:           of("target_max_concurrent", "target", "Open dispatches that a target gets at present."),
		configuredSlots: of("target_max_concurrent_configured", "target", "Open dispatches that a target is allowed."),
		backlog:         of("target_backlog", "target", "Unfinished work for a target."),
		inFlight:        of("target_in_flight", "target", "Slots of a target that are taken."),
	}
	if q.cfg.TenantMetrics {
		c.tenantBacklog = of("tenant_backlog", "tenant", "Unfinished work of a tenant, of the 1,000 tenants with most to do.")
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{c.rps, c.configuredRPS, c.slots, c.configuredSlots, c.backlog, c.inFlight} {
		out <- d
	}
	if c.tenantBacklog != nil {
		out <- c.tenantBacklog
	}
}

// Collect is part of prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	views := c.q.Views()
	slices.SortStableFunc(views, func(a, b View) int { return cmp.Compare(b.Backlog, a.Backlog) })
	for _, v := range views[:min(len(views), maxSeries)] {
		gauge := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, v.Target)
		}
		gauge(c.rps, v.Limits.RPS.Value)
		gauge(c.configuredRPS, v.Limits.RPS.Configured)
		gauge(c.slots, v.Limits.MaxConcurrent.Value)
		gauge(c.configuredSlots, v.Limits.MaxConcurrent.Configured)
		gauge(c.backlog, float64(v.Backlog))
		gauge(c.inFlight, float64(v.InFlight))
	}
	if c.tenantBacklog != nil {
		c.collectTenants(out)
	}
}

func (c *collector) collectTenants(out chan<- prometheus.Metric) {
	all := c.q.tenants.copy()
	names := slices.Collect(maps.Keys(all))
	slices.SortFunc(names, func(a, b job.Tenant) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), slices.Compare(a[:], b[:]))
	})
	for _, name := range names[:min(len(names), maxSeries)] {
		out <- prometheus.MustNewConstMetric(c.tenantBacklog, prometheus.GaugeValue, float64(all[name]), hex.EncodeToString(name[:]))
	}
}
