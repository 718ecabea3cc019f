package pebblestore

import (
	"sync"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/aquifer-fleet/aquifer/node/job"
)

const (
	filterKeys  = 1 << 18 // keys that the smallest filter is made for: 0.3 MB
	filterError = 0.01    // how often a look-up asks the disk in vain; 1.2 bytes a key
)

// keyFilter knows which idempotency keys are surely free, so that a new job does not pay for a look-up
// on disk, which costs more than its write. It is filled from the key index after the start and again
// whenever it has taken too many keys; until the first time it knows nothing.
//
// add and begin are called by the committer only. So a key is either on disk before begin, where the
// filler will read it, or is added afterwards.
type keyFilter struct {
	refill chan struct{} // of one: the filter is worn out

	// mu guards all below: callers test while the committer adds.
	mu      sync.RWMutex
	current *bloom.BloomFilter // nil until filled once
	filling *bloom.BloomFilter // nil unless being filled
	room    int                // keys that current may still take
}

func newKeyFilter() *keyFilter {
	f := &keyFilter{refill: make(chan struct{}, 1)}
	f.refill <- struct{}{}
	return f
}

// mayHave reports whether the key may be taken.
func (f *keyFilter) mayHave(key job.KeyHash) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.current == nil || f.current.Test(key[:])
}

func (f *keyFilter) add(key job.KeyHash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.filling != nil {
		f.filling.Add(key[:])
	}
	if f.current == nil {
		return
	}
	f.current.Add(key[:])
	if f.room--; f.room == 0 {
		signal(f.refill)
	}
}

// begin starts filling anew, for so many keys.
func (f *keyFilter) begin(keys int) {
	fresh := bloom.NewWithEstimates(uint(keys), filterError)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filling = fresh
}

// fill adds keys found on disk.
func (f *keyFilter) fill(keys []job.KeyHash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range keys {
		f.filling.Add(keys[i][:])
	}
}

// end takes the new filter into use. It can take room more keys.
func (f *keyFilter) end(room int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.filling, f.room = f.filling, nil, room
}
