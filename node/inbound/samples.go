package inbound

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// maxSamples bounds what is kept of one tick. Of more than that the oldest go.
	maxSamples = 8192
	stripes    = 16
)

// samples count inserts, and keep how long the latest ones took, from one take to the next. They are
// safe for concurrent use without a lock: each insert goes to a stripe by chance, so that two
// processors seldom write to the same one.
type samples struct {
	stripes [stripes]stripe
}

type stripe struct {
	inserts   atomic.Int64                       // since the last take
	latencies [maxSamples / stripes]atomic.Int64 // a ring, in ns; 0 for none
}

// add counts an insert that took so long.
func (s *samples) add(took time.Duration) {
	one := &s.stripes[rand.Uint64()%stripes]
	i := uint64(one.inserts.Add(1)-1) % uint64(len(one.latencies))
	one.latencies[i].Store(max(int64(took), 1))
}

// take returns how many inserts there were since the last take, and appends how long they took to
// buf. What is added meanwhile is in this take or in the next.
func (s *samples) take(buf []time.Duration) (inserts int, latencies []time.Duration) {
	for i := range s.stripes {
		one := &s.stripes[i]
		inserts += int(one.inserts.Swap(0))
		for j := range one.latencies {
			if took := one.latencies[j].Swap(0); took > 0 {
				buf = append(buf, time.Duration(took))
			}
		}
	}
	return inserts, buf
}
