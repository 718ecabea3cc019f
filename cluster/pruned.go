package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pruned are the members that are passed over. It is about members as they were: one that has gone, or
// has other particulars, is a new one.
//
// mu guards until; count is its length, so that nobody takes a lock while none is pruned.
type pruned struct {
	ttl   time.Duration
	count atomic.Int64

	mu    sync.Mutex
	until map[string]prune
}

// prune is one member and the end of its time.
type prune struct {
	member Member
	end    time.Time
}

func newPruned(ttl time.Duration) pruned {
	return pruned{ttl: ttl, until: make(map[string]prune)}
}

// add returns whether the member was not passed over before.
func (p *pruned) add(m Member) (fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.until[m.ID]
	p.until[m.ID] = prune{m, time.Now().Add(p.ttl)}
	p.count.Store(int64(len(p.until)))
	return !there
}

func (p *pruned) remove(id string) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.until, id)
	p.count.Store(int64(len(p.until)))
}

// has reports whether a member is passed over.
func (p *pruned) has(m Member) bool {
	if p.count.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, there := p.until[m.ID]
	return there && one.holds(m, time.Now())
}

// holds reports whether the member is still the same and the time not over.
func (one prune) holds(m Member, now time.Time) bool {
	return m.sameButLoad(one.member) && now.Before(one.end)
}

// ids returns who is passed over, in ascending order.
func (p *pruned) ids(f *field) []string {
	if p.count.Load() == 0 {
		return nil
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for id, one := range p.until {
		if m, there := f.member(id); there && one.holds(m, now) {
			list = append(list, id)
		} else {
			delete(p.until, id)
		}
	}
	p.count.Store(int64(len(p.until)))
	slices.Sort(list)
	return list
}
