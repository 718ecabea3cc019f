package node

import (
	"context"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/admit"
	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/pace"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/store/pebblestore"
)

// The parts of the memory limit that large bodies may have. An answer is held once while it is read, and
// again in the batch that records it; the payload of a delivery also as text and in the JSON that is
// sent. An answer that the caller of a call is reading is held once.
const (
	partForAnswers  = 8
	partForRelays   = 16
	partForPayloads = 16
)

// receiverBytes is how much of a receiver's answer is read: only its status and header count, but what is
// read to its end leaves the connection free for the next delivery.
const receiverBytes = 64 << 10

// MemoryLimit is the memory of the process, in bytes, above which new jobs are refused; 0 for no limit.
func (n *Node) MemoryLimit() int64 {
	if n.cfg.MemoryLimitMB == Auto {
		return admit.AutoMemory(admit.MachineMemory(os.DirFS("/")))
	}
	return int64(n.cfg.MemoryLimitMB) * admit.MB
}

// newRoom is the room for the large bodies of a line.
func (n *Node) newRoom(line job.Line, part int64) *dispatch.Room {
	labels := prometheus.Labels{"line": line.String()}
	return dispatch.NewRoom(n.MemoryLimit()/part, prometheus.WrapRegistererWith(labels, n.deps.Registry))
}

// payloads is the store as deliveries see it, and the room for what they read from it.
type payloads struct {
	*pebblestore.Store
	room *dispatch.Room
	most int64 // the largest payload
}

// lease takes the room that the payload of a turn may need, if it has one of its own, before it is read.
// It returns false when ctx ends first.
func (p payloads) lease(ctx context.Context, t *queue.Turn) (*dispatch.Lease, bool) {
	l := p.room.Lease(ctx)
	if t.Held == nil {
		if s, err := p.Get(ctx, t.Entry.ID); err == nil { // else the delivery meets the error, too
			t.Held = &s
		}
	}
	if t.Held == nil || t.Held.State.Result == nil || !t.Held.State.Result.Truncated {
		return l, true
	}
	if l.Take(ctx, p.most) != nil {
		t.Release(pace.Signal{})
		return l, false
	}
	return l, true
}

// Payload reads a payload, and gives back the room that it does not need.
func (p payloads) Payload(ctx context.Context, id job.ID) ([]byte, error) {
	body, err := p.Store.Payload(ctx, id)
	dispatch.LeaseOf(ctx).Keep(int64(len(body)))
	return body, err
}
