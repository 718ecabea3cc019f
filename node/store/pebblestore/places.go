package pebblestore

import (
	"encoding/binary"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// places remembers where the deliveries of jobs that ended lately wait, so that settling one, which
// mostly follows soon, reads nothing. It forgets when two ids fall on one slot; then the records say it.
// Only who has the claim on a job asks or tells about its delivery.
type places struct {
	mu    sync.Mutex // guards slots
	slots [4096]place
}

// place is where a delivery waits, and until when its job is kept.
type place struct {
	entry     job.Entry
	expiresAt int64 // Unix ms
	payload   bool  // its body is kept apart
}

// slot picks by random bits of the id.
func (p *places) slot(id job.ID) *place {
	return &p.slots[binary.BigEndian.Uint16(id[len(id)-2:])%uint16(len(p.slots))]
}

func (p *places) put(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.slot(at.entry.ID) = at
}

func (p *places) get(id job.ID) (place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := *p.slot(id)
	return at, at.entry.ID == id
}

func (p *places) remove(id job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slot(id); s.entry.ID == id {
		*s = place{}
	}
}
