package proxy

import (
	"context"
	"math"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/aquifer-fleet/aquifer/node/events"
)

// Relay is a target's answer for the caller of a call.
type Relay struct {
	Status int
	// Header is the target's, without what belongs to one connection.
	Header http.Header
	Body   []byte

	live *events.Subscription
	room *relays
	held int64
}

// Delivered says that the caller has the whole answer: it was written and flushed while he was there. It waits until the
// end of the job, which is recorded, is told: before that nobody asks whether it is delivered.
func (r *Relay) Delivered(ctx context.Context) {
	for {
		if e, err := r.live.Next(ctx); err != nil || e.Terminal() {
			break
		}
	}
	r.live.Confirm()
}

// Close ends what is held for the relay. A result that is not delivered by now is left to the webhook.
func (r *Relay) Close() {
	r.live.Close()
	r.room.give(r.held)
}

// freeRelay is the size of an answer, in bytes, up to which it needs no room, as when it is read.
const freeRelay = 64 << 10

// relays bounds the memory of the answers that callers are reading, at whatever pace. Nobody waits for it: an answer for
// which there is none is told from where it is recorded.
type relays struct {
	free  *semaphore.Weighted
	size  int64
	taken prometheus.Gauge
}

// newRelays returns the room for so many bytes; 0 bounds nothing.
func newRelays(bytes int64, taken prometheus.Gauge) *relays {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	return &relays{semaphore.NewWeighted(bytes), bytes, taken}
}

// take takes the room for an answer of so many bytes, all that there is if that is less. It returns what give is to get.
func (r *relays) take(bytes int64) (held int64, ok bool) {
	if bytes <= freeRelay {
		return 0, true
	}
	held = min(bytes, r.size)
	if !r.free.TryAcquire(held) {
		return 0, false
	}
	r.taken.Add(float64(held))
	return held, true
}

// give gives back what take has returned.
func (r *relays) give(held int64) {
	if held > 0 {
		r.free.Release(held)
		r.taken.Sub(float64(held))
	}
}
