package node

import (
	"net/http"

	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/proxy"
)

// newProxy returns what tries calls past the queue. Their attempts are cut when those of the queue are, and their answers
// find room where those do; those that are being relayed have their own.
func (n *Node) newProxy(p *parts, in *intake.Intake) *proxy.Proxy {
	return proxy.New(proxy.Config{
		Intake: in, Worker: p.caller.worker, Hub: p.hub, Attempts: p.caller.ctx, Room: p.caller.room, Load: p.admission.load,
		RelayBytes: n.MemoryLimit() / partForRelays, Registerer: n.deps.Registry,
	})
}

// load is how full a target's queue is, as one who waits in a lane of it sees it.
func (a *admission) load(lane job.Lane) intake.Load {
	l := a.calls.Load(lane)
	return intake.Load{
		ActiveQueues: l.ActiveLanes, UpstreamBacklog: l.TargetBacklog, QueueBacklog: l.LaneBacklog, Pressure: a.backlog(l).Pressure(),
	}
}

// internal says whether a request may have what only nodes say to each other. Without a secret nobody can prove to be
// one.
func (n *Node) internal(r *http.Request) bool { return !n.cfg.movesWork() || fromPeer(r) }
