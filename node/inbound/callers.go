package inbound

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// activeTicks is for how many ticks a caller counts as active.
	activeTicks = 3
	// maxCallers bounds how many callers are told apart, and so the memory for it: a few MB. Those
	// beyond it are not counted.
	maxCallers = 65_536
	parts      = 64
)

// callers count the users that came in the last ticks. They are safe for concurrent use; the lock of
// one part of the users is held for one look into a map.
type callers struct {
	seed   maphash.Seed
	ticks  atomic.Int64
	active atomic.Int64
	parts  [parts]part
}

type part struct {
	mu   sync.Mutex       // guards last
	last map[uint64]int64 // hash of the user -> tick in which it came last
	_    [64 - 2*8]byte   // a cache line each
}

func newCallers() *callers {
	c := &callers{seed: maphash.MakeSeed()}
	for i := range c.parts {
		c.parts[i].last = make(map[uint64]int64)
	}
	return c
}

// see notes that a user came. A user without a name is nobody.
func (c *callers) see(user string) {
	if user == "" {
		return
	}
	hash := maphash.String(c.seed, user)
	p := &c.parts[hash%parts]
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.last[hash]; !known {
		if len(p.last) >= maxCallers/parts {
			return
		}
		c.active.Add(1)
	}
	p.last[hash] = c.ticks.Load()
}

// tick forgets the users that have not come for too long.
func (c *callers) tick() {
	now := c.ticks.Add(1)
	for i := range c.parts {
		c.parts[i].forget(now-activeTicks, &c.active)
	}
}

// forget drops the users that came last before a tick.
func (p *part) forget(before int64, active *atomic.Int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for hash, last := range p.last {
		if last < before {
			delete(p.last, hash)
			active.Add(-1)
		}
	}
}

// count is how many users are active, at least 1.
func (c *callers) count() int { return max(int(c.active.Load()), 1) }
