package node

import "github.com/aquifer-fleet/aquifer/node/api"

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
		Queues: api.Queues{Active: stats.Lanes, Backlog: int64(stats.Backlog)},
	}
}
