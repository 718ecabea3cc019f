package pebblestore

import (
	"encoding/binary"
	"sync"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// places remembers where work that came lately waits, so that what follows, mostly soon, need not read
// it. It forgets when two ids fall on one slot; then the records say it. It is told and asked only by who
// has the claim on a job, or has just added it.
type places struct {
	mu    sync.Mutex // guards slots
	slots [4096]place
}

// place is where work waits. The rest concerns deliveries.
type place struct {
	entry     job.Entry
	expiresAt int64 // until when the job is kept, in Unix ms
	payload   bool  // the body is kept apart
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
	return at, at.entry.ID == id && at.entry.Order != 0
}

func (p *places) remove(id job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slot(id); s.entry.ID == id {
		*s = place{}
	}
}
