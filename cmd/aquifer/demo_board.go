package main

import (
	"slices"
	"sync"
	"time"
)

// board counts what happens in the demo. Callers, target and receiver write to it from goroutines of
// their own, and the picture is drawn from it.
type board struct {
	rps int

	// mu guards what is below, so that a scene shows one moment.
	mu        sync.Mutex
	server    string
	began     time.Time
	accepting time.Duration
	releases  []time.Duration
	tenants   []tally
}

// newBoard returns the board of a burst that has not begun.
func newBoard(rps int, tenants []tally) *board {
	return &board{rps: rps, tenants: slices.Clone(tenants)}
}

// begin starts the clock: the burst is about to be sent to the node at server.
func (b *board) begin(server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server, b.began = server, time.Now()
}

// accepted counts a job of a tenant that the node has taken.
func (b *board) accepted(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(tenant, func(t *tally) { t.accepted++ })
	if !slices.ContainsFunc(b.tenants, func(t tally) bool { return t.accepted < t.burst }) {
		b.accepting = time.Since(b.began)
	}
}

// released counts a call of the target.
func (b *board) released(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(tenant, func(t *tally) { t.released++ })
	b.releases = append(b.releases, time.Since(b.began))
}

// delivered counts a result that has reached the receiver.
func (b *board) delivered(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(tenant, func(t *tally) { t.delivered++ })
}

// count changes the tally of a tenant; mu must be held.
func (b *board) count(tenant string, change func(*tally)) {
	for i := range b.tenants {
		if b.tenants[i].name == tenant {
			change(&b.tenants[i])
		}
	}
}

// scene returns this moment.
func (b *board) scene() scene {
	b.mu.Lock()
	defer b.mu.Unlock()
	return scene{
		server: b.server, rps: b.rps, elapsed: time.Since(b.began), accepting: b.accepting,
		releases: slices.Clone(b.releases), tenants: slices.Clone(b.tenants),
	}
}
