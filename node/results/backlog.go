package results

import (
	"slices"
	"sync"
)

// backlog is what waits to be written, in order. What keys became and what jobs answered have room of their own, so that
// few large answers do not displace many keys.
//
// mu guards list and waits.
type backlog struct {
	limit weight        // the room
	more  chan struct{} // has one when something was added

	mu    sync.Mutex
	list  []record
	waits weight
}

// weight is the size of records, in bytes.
type weight struct{ claims, results int }

func (w weight) plus(o weight) weight  { return weight{w.claims + o.claims, w.results + o.results} }
func (w weight) minus(o weight) weight { return weight{w.claims - o.claims, w.results - o.results} }
func (w weight) within(o weight) bool  { return w.claims <= o.claims && w.results <= o.results }

// newBacklog has so much room for what keys became and for what jobs answered, in bytes.
func newBacklog(claims, results int) *backlog {
	return &backlog{limit: weight{claims, results}, more: make(chan struct{}, 1)}
}

// add reports whether there was room for a record.
func (b *backlog) add(rec record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	waits := b.waits.plus(rec.weight())
	if !waits.within(b.limit) {
		return false
	}
	b.list, b.waits = append(b.list, rec), waits
	select {
	case b.more <- struct{}{}:
	default:
	}
	return true
}

// first returns as many of the first records as one call writes. They are the caller's: a call that was given up may
// read them when another one has written them.
func (b *backlog) first() []record {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for n < len(b.list) && n < batchSize && (n == 0 || bytes+b.list[n].size() <= batchBytes) {
		bytes += b.list[n].size()
		n++
	}
	return slices.Clone(b.list[:n])
}

// drop removes the first n records.
func (b *backlog) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		b.waits = b.waits.minus(b.list[i].weight())
		b.list[i] = record{} // its texts may go
	}
	b.list = b.list[n:]
	if len(b.list) == 0 {
		b.list = nil
	}
}

// clear removes all and returns how many there were.
func (b *backlog) clear() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.list)
	b.list, b.waits = nil, weight{}
	return n
}

// size is how many bytes wait.
func (b *backlog) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits.claims + b.waits.results
}

// roomy reports whether at least half of the room is free.
func (b *backlog) roomy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits.plus(b.waits).within(b.limit)
}
