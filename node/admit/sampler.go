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
	// Memory returns the bytes that the process needs; nil: what the Go runtime has mapped, has not
	// given back, and does not have free.
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
		s.Memory = neededMemory
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
	r.Admitted = max(r.Admitted+s.admitted.Load(), 0) // what is taken off may count no more
	return r
}

// Add counts bytes of new work that the store will take and the last reading did not see; what it will not take after all
// is taken off again.
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

// Expire makes the next Read take new readings: something has changed them.
func (s *Sampler) Expire() {
	if latest := s.latest.Load(); latest != nil {
		s.latest.CompareAndSwap(latest, &sample{readings: latest.readings})
	}
}

// neededMemory is what the Go runtime has mapped, has not given back, and does not have free: free
// memory is there for what comes next, and the runtime keeps that of a peak for minutes.
func neededMemory() int64 {
	classes := [...]metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(classes[:])
	return int64(classes[0].Value.Uint64() - classes[1].Value.Uint64() - classes[2].Value.Uint64())
}
