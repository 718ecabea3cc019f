package egress

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// routes picks the transport for a host. Normally there is one for all. When a connection to a host
// brings no answer, the next request must not end on the same one, or on its equally dead
// neighbours: the host then gets a transport of its own for a while, and with it new connections and
// a new look at its name. Requests under way stay where they are, since the host may just be slow.
//
// mu guards away and next, so that many attempts that fail together leave only once.
type routes struct {
	build   func() *http.Transport
	main    *http.Transport
	metrics *metrics
	detours atomic.Int64 // len(away), so that the usual case takes no lock

	mu   sync.Mutex
	away map[string]detour
	next time.Time // when the first detour ends, or earlier; zero if there is none
}

type detour struct {
	by    *http.Transport
	since time.Time
}

const (
	// detourTime is long enough for the silent connections to have been found out and closed.
	detourTime = pingAfter + pingTimeout + idleConnTimeout
	// detourPause keeps a host that never answers in time from costing a connection per attempt.
	detourPause = 15 * time.Second
)

func newRoutes(build func() *http.Transport, m *metrics) *routes {
	return &routes{build: build, main: build(), metrics: m, away: make(map[string]detour)}
}

// to returns the transport for a host, as it stands in the URL.
func (r *routes) to(host string) *http.Transport {
	if r.detours.Load() == 0 {
		return r.main
	}
	now := time.Now()
	r.mu.Lock()
	over := r.forget(now)
	t := r.current(host)
	r.mu.Unlock()
	closeIdle(over)
	return t
}

// leave is told that a connection to host, by the transport used, brought no answer.
func (r *routes) leave(host string, used *http.Transport) {
	now := time.Now()
	r.mu.Lock()
	over := r.forget(now)
	if d, ok := r.away[host]; r.current(host) == used && (!ok || now.Sub(d.since) >= detourPause) {
		if ok {
			over = append(over, d.by)
		}
		r.away[host] = detour{by: r.build(), since: now}
		r.detours.Store(int64(len(r.away)))
		r.next = cmp.Or(r.next, now.Add(detourTime))
		r.metrics.left.Inc()
	}
	r.mu.Unlock()
	closeIdle(over)
}

// current returns the transport that host has at the moment; r.mu is held.
func (r *routes) current(host string) *http.Transport {
	if d, ok := r.away[host]; ok {
		return d.by
	}
	return r.main
}

// forget ends the detours whose time is over, and returns their transports; r.mu is held.
func (r *routes) forget(now time.Time) (over []*http.Transport) {
	if now.Before(r.next) {
		return nil
	}
	r.next = time.Time{}
	for host, d := range r.away {
		end := d.since.Add(detourTime)
		if !now.Before(end) {
			over = append(over, d.by)
			delete(r.away, host)
		} else if r.next.IsZero() || end.Before(r.next) {
			r.next = end
		}
	}
	r.detours.Store(int64(len(r.away)))
	return over
}

// closeIdle closes what is idle; what is in use ends by itself, or by idleConnTimeout.
func closeIdle(list []*http.Transport) {
	for _, t := range list {
		t.CloseIdleConnections()
	}
}

func (r *routes) closeIdle() {
	r.mu.Lock()
	all := []*http.Transport{r.main}
	for _, d := range r.away {
		all = append(all, d.by)
	}
	r.mu.Unlock()
	closeIdle(all)
}
