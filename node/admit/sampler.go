package admit

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// SampleAge is how old readings may be. Younger ones would cost more than they tell.
const SampleAge = 250 * time.Millisecond

// Sources is where readings come from. The functions are called by one goroutine at a time.
type Sources struct {
	// Usage returns the size of the store in bytes and how long its oldest accepted change has
	// been waiting for the disk. It may be as old as SampleAge itself.
	Usage func() (bytes int64, syncLag time.Duration)
	// Space returns what the file system of the store can still take and its whole size, in bytes.
	// While it fails, its last result holds.
	Space func() (free, volume int64, err error)
	// Memory returns the bytes that the process holds; nil: what the Go runtime has mapped and not
	// given back.
	Memory func() int64
}

// Sampler takes readings when they are asked for, at most every SampleAge. It is safe for concurrent
// use; whoever asks first after that time takes them for all.
type Sampler struct {
	sources  Sources
	latest   atomic.Pointer[sample]
	admitted atomic.Int64 // bytes of new work since latest

	sampling sync.Mutex // held by the one that takes readings
}

type sample struct {
	at time.Time
	// readings.Admitted is what was admitted in the span before: the size of the store may be as old,
	// and what was admitted last need not have reached it.
	readings Readings
}

// NewSampler returns a sampler of the sources.
func NewSampler(s Sources) *Sampler {
	if s.Memory == nil {
		s.Memory = heldMemory
	}
	return &Sampler{sources: s}
}

// Read returns readings of which none is older than SampleAge, unless another caller is just taking
// new ones: then it returns the last ones rather than wait.
func (s *Sampler) Read(now time.Time) Readings {
	latest := s.latest.Load()
	if latest == nil || now.Sub(latest.at) >= SampleAge {
		latest = s.renew(latest, now)
	}
	r := latest.readings
	r.Admitted += s.admitted.Load()
	return r
}

// Add counts bytes of new work that the store will take and the last reading did not see.
func (s *Sampler) Add(bytes int64) { s.admitted.Add(bytes) }

func (s *Sampler) renew(last *sample, now time.Time) *sample {
	if last == nil {
		s.sampling.Lock()
	} else if !s.sampling.TryLock() {
		return last
	}
	defer s.sampling.Unlock()
	if latest := s.latest.Load(); latest != last {
		return latest
	}
	next := &sample{at: now}
	next.readings.Admitted = s.admitted.Swap(0)
	next.readings.Memory = s.sources.Memory()
	next.readings.DB, next.readings.SyncLag = s.sources.Usage()
	free, volume, err := s.sources.Space()
	switch {
	case err == nil:
		next.readings.Free, next.readings.Volume = free, volume
	case last != nil: // the last measure is better than none
		next.readings.Free, next.readings.Volume = last.readings.Free, last.readings.Volume
	}
	s.latest.Store(next)
	return next
}

// heldMemory is what the Go runtime has mapped and not given back to the system.
func heldMemory() int64 {
	held := [...]metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(held[:])
	return int64(held[0].Value.Uint64() - held[1].Value.Uint64())
}
