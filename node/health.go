package node

import (
	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

// ready says whether new jobs should come here. What is refused for a while by a limit of admission is
// left to the refusals, which say how long.
func (p *parts) ready() error {
	if p.store.Full() {
		return fault.New(fault.Unavailable, "the disk is full")
	}
	return p.cluster.ready()
}

// health is what GET /health shows of the parts.
func (p *parts) health() api.Health {
	v := p.gate.View()
	stats := p.calls.Stats()
	return api.Health{
		Admission: api.Admission{Enabled: true, Readings: &api.Readings{
			MemoryMB: v.MemoryMB, MemoryReservedMB: v.MemoryReservedMB, MemoryLimitMB: v.MemoryLimitMB,
			DBBytes: v.DBBytes, DBMaxBytes: v.DBMaxBytes, MaxBodyBytes: v.MaxBodyBytes,
			RetryAfterSeconds: v.RetryAfterSeconds, SyncLagMS: v.SyncLagMS,
		}},
		Queues:  api.Queues{Active: stats.Lanes, Backlog: int64(stats.Backlog), AdmissionPressure: p.admission.pressure()},
		Inbound: p.inboundHealth(),
		Cluster: p.cluster.status(),
		Drain:   p.drainHealth(),
	}
}

func (p *parts) inboundHealth() *api.Inbound {
	if p.inbound == nil {
		return nil
	}
	v := api.Inbound(p.inbound.View())
	return &v
}
