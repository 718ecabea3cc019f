package dispatch

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"github.com/aquifer-fleet/aquifer/node/egress"
)

// Room bounds the memory of the bodies that are larger than most, from when they are read until what they
// are for is recorded. Who wants more than there is waits, in order of arrival.
//
// It has two halves. One is for bodies of up to egress.ModestBody; a body that turns out larger moves to
// the other one, where it gets at once all that it may need. So who is there waits for nobody, those in
// the first half wait at most for those in the second, and no two ever wait for each other. A body that
// is larger than its half gets the whole of it.
type Room struct {
	modest, large half
	taken         prometheus.Gauge
	waiting       prometheus.Gauge
}

// half is a half of a Room.
type half struct {
	*semaphore.Weighted
	size int64
}

// NewRoom returns a room for so many bytes; 0 bounds nothing. reg takes its metrics; nil for none.
func NewRoom(bytes int64, reg prometheus.Registerer) *Room {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	size := max(bytes/2, 1)
	auto := promauto.With(reg)
	return &Room{
		modest: half{semaphore.NewWeighted(size), size},
		large:  half{semaphore.NewWeighted(size), size},
		taken: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_large_bodies_bytes",
			Help: "Memory set aside for answers of more than 64 KiB that are read, recorded, or delivered.",
		}),
		waiting: auto.NewGauge(prometheus.GaugeOpts{
			Name: "aquifer_large_bodies_waiting",
			Help: "Answers of more than 64 KiB that wait for memory.",
		}),
	}
}

// Lease returns the room of one turn, in which nothing is taken yet.
func (r *Room) Lease(ctx context.Context) *Lease { return &Lease{Context: ctx, room: r} }

// Lease is what one turn has of a Room. It is the turn's context: an attempt made with it takes the room
// for its answer here, where it stays until the turn is over. One goroutine at a time owns it.
type Lease struct {
	context.Context
	room   *Room
	wanted int64 // by the largest Take
	from   *half // that bytes are taken from; nil: none is
	bytes  int64
}

type leaseKey struct{}

// Value makes the lease known to those who have only a context made from it.
func (l *Lease) Value(key any) any {
	if key == (leaseKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// LeaseOf returns the lease that ctx is made from; nil if there is none.
func LeaseOf(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Take waits until so many bytes are taken in all, or until ctx ends; its error is that of ctx.
func (l *Lease) Take(ctx context.Context, bytes int64) error {
	if l == nil || bytes <= l.wanted {
		return nil
	}
	to := &l.room.modest
	if bytes > egress.ModestBody {
		to = &l.room.large
	}
	if l.from == to {
		l.give(l.bytes) // it must not wait there while it has something that others wait for
	}
	n := min(bytes, to.size)
	if !to.TryAcquire(n) {
		l.room.waiting.Inc()
		defer l.room.waiting.Dec()
		if err := to.Acquire(ctx, n); err != nil {
			return err
		}
	}
	l.give(l.bytes)
	l.from, l.bytes, l.wanted = to, n, bytes
	l.room.taken.Add(float64(n))
	return nil
}

// Keep gives back what is taken beyond so many bytes.
func (l *Lease) Keep(bytes int64) {
	if l != nil && bytes < l.bytes {
		l.give(l.bytes - bytes)
	}
}

// End gives everything back.
func (l *Lease) End() { l.Keep(0) }

func (l *Lease) give(bytes int64) {
	if bytes > 0 {
		l.from.Release(bytes)
		l.bytes -= bytes
		l.room.taken.Sub(float64(bytes))
	}
}
