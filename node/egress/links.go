package egress

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// links opens and keeps the links of a client. The one that was idle for the shortest time is taken
// first, so that those that are not needed grow old and are closed.
//
// mu guards what stands below it. Nothing that may wait is done under it.
type links struct {
	dialer  *dialer
	header  int64     // bytes that an answer's header may have
	most    int       // idle links
	readers sync.Pool // of *bufio.Reader: an idle link needs none

	outgoings outgoings

	mu     sync.Mutex
	hosts  map[string]*host
	total  int // of idle links
	sweep  *time.Timer
	closed bool
}

// host is what is known of one address: host and port.
type host struct {
	idle []*link   // in the order in which they became so
	left time.Time // when its idle links were last closed because one brought no answer
}

// sweepEvery is by how much an idle link may outlive its time, or its end by the other side.
const sweepEvery = 15 * time.Second

func newLinks(cfg Config, d *dialer) *links {
	return &links{
		dialer: d, header: cfg.ResponseHeaderBytes, most: cfg.MaxIdleConns, hosts: make(map[string]*host),
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBufferBytes) }},
	}
}

// get returns a link to address that can be used until the attempt's deadline: an idle one, or else a new
// one.
func (s *links) get(a *attempt, address string) (_ *link, reused bool, err error) {
	if err := a.over(); err != nil {
		return nil, false, err
	}
	for l := s.take(address); l != nil; l = s.take(address) {
		if l.rouse(a.deadline) {
			return l, true, nil
		}
		_ = l.Close()
	}
	ctx := a.Context
	if !a.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, a.deadline)
		defer cancel()
	}
	c, err := s.dialer.dial(ctx, "tcp", address)
	if err != nil {
		return nil, false, err
	}
	if err := c.SetDeadline(a.deadline); err != nil {
		return nil, false, errors.Join(err, c.Close())
	}
	return newLink(c, address), false, nil
}

func (s *links) take(address string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[address]
	if h == nil || len(h.idle) == 0 {
		return nil
	}
	last := len(h.idle) - 1
	l := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	s.total--
	return l
}

// put keeps a link whose exchange is over, unless there are enough.
func (s *links) put(l *link) {
	l.rest(s)
	if surplus := s.keep(l); surplus != nil {
		_ = surplus.Close()
	}
}

// keep adds a link and returns one that has to go.
func (s *links) keep(l *link) (surplus *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return l
	}
	h := s.host(l.address)
	if len(h.idle) == maxIdleConnsPerHost {
		return l
	}
	if s.total >= s.most {
		surplus = s.surplus()
	}
	h.idle = append(h.idle, l)
	s.total++
	return surplus
}

// host returns what is known of an address, which tidy forgets again; s.mu is held.
func (s *links) host(address string) *host {
	h := s.hosts[address]
	if h == nil {
		h = new(host)
		s.hosts[address] = h
	}
	if s.sweep == nil {
		s.sweep = time.AfterFunc(sweepEvery, s.tidy)
	}
	return h
}

// surplus takes out the link of any host that was idle for the longest time; s.mu is held.
func (s *links) surplus() *link {
	for _, h := range s.hosts {
		if len(h.idle) > 0 {
			l := h.idle[0]
			h.idle = slices.Delete(h.idle, 0, 1)
			s.total--
			return l
		}
	}
	return nil
}

// remove closes a link, and forgets it if it is idle.
func (s *links) remove(l *link) {
	s.mu.Lock()
	if h := s.hosts[l.address]; h != nil {
		before := len(h.idle)
		h.idle = slices.DeleteFunc(h.idle, func(other *link) bool { return other == l })
		s.total -= before - len(h.idle)
	}
	s.mu.Unlock()
	_ = l.Close()
}

// leave closes the idle links to an address, because one brought no answer: they are of its age, and the
// next request must not end on one that is equally dead. It does so only once in a while, so that a
// target that is just slow does not cost its connections again and again.
func (s *links) leave(address string) {
	now := time.Now()
	var over []*link
	s.mu.Lock()
	if h := s.hosts[address]; h != nil && len(h.idle) > 0 && now.Sub(h.left) >= detourPause {
		over, h.idle, h.left = h.idle, nil, now
		s.total -= len(over)
		s.dialer.metrics.left.Inc()
	}
	s.mu.Unlock()
	closeAll(over)
}

// tidy closes the links that were idle for too long or that the other side has closed, and forgets the
// hosts that have none.
func (s *links) tidy() {
	now := time.Now()
	var over []*link
	s.mu.Lock()
	for address, h := range s.hosts {
		h.idle = slices.DeleteFunc(h.idle, func(l *link) bool {
			old := l.silence() >= idleConnTimeout || l.stale()
			if old {
				over = append(over, l)
			}
			return old
		})
		if len(h.idle) == 0 && now.Sub(h.left) >= detourPause {
			delete(s.hosts, address)
		}
	}
	s.total -= len(over)
	if s.sweep = nil; len(s.hosts) > 0 {
		s.sweep = time.AfterFunc(sweepEvery, s.tidy)
	}
	s.mu.Unlock()
	closeAll(over)
}

// close closes what is idle now, and what would be later.
func (s *links) close() {
	var over []*link
	s.mu.Lock()
	s.closed = true
	for _, h := range s.hosts {
		over = append(over, h.idle...)
	}
	clear(s.hosts)
	s.total = 0
	if s.sweep != nil {
		s.sweep.Stop()
	}
	s.mu.Unlock()
	closeAll(over)
}

func closeAll(list []*link) {
	for _, l := range list {
		_ = l.Close()
	}
}
