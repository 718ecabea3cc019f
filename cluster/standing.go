package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// errUnasked is why a node owns nothing that knows its cluster, and not yet whether that believes it.
var errUnasked = errors.New("the other nodes have not been asked yet whether they believe this one's signature")

// standing is whether this node may own anything, as far as that is for the others to say. Its zero value says yes
// and asks nobody.
//
// A node that nobody believes would be alone in taking itself for a member: the others pass it over and own what it takes
// for its own. It is safe for concurrent use.
type standing struct {
	heeded bool
	why    atomic.Pointer[error] // nil: it may
}

// lost says why the node may own nothing; nil if it may.
func (s *standing) lost() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (s *standing) set(why error) {
	if why == nil {
		s.why.Store(nil)
		return
	}
	s.why.Store(&why)
}

// watchStanding looks once a second, and when the view changes, whether the others believe this node, until ctx ends.
func (f *Forwarder) watchStanding(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	warned, look := false, look{Forwarder: f}
	for {
		news := f.Owners.fields.view.Changes()
		if f.Owners.fields.view.Roster().Unsettled != nil {
			look.since = time.Time{} // it sees nobody, so it waits for nobody
		} else {
			why := look.refusal(ctx)
			if ctx.Err() != nil {
				return
			}
			f.Owners.standing.set(why)
			switch {
			case why != nil && !warned:
				f.Logger.WarnContext(ctx, "the node takes no work", "error", why)
			case why == nil && warned:
				f.Logger.InfoContext(ctx, "the node takes work again")
			}
			warned = why != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-tick.C:
		}
	}
}

// patience is how long a node that is refused leaves it to others to own anything that it does not see do so.
const patience = 10 * time.Second

// look is one look after the other at what the others believe.
type look struct {
	*Forwarder
	believer string    // the member that believed last
	since    time.Time // when it began to wait for those that go first; zero if it does not
}

// refusal says why this node must own nothing: of the others that answer none believes its seal, and it is not the one of
// them to stay; nil if it may. As a rule it costs one request, to who believed last.
func (l *look) refusal(ctx context.Context) error {
	others := l.others()
	if i := slices.IndexFunc(others, func(m Member) bool { return m.ID == l.believer }); i > 0 {
		others[0], others[i] = others[i], others[0]
	}
	next := min(1, len(others))
	v := l.poll(ctx, others[:next])
	if v.believer == "" {
		v = v.and(l.poll(ctx, others[next:]))
	}
	if v.believer != "" {
		l.believer, l.since = v.believer, time.Time{}
		return nil
	}
	return l.unbelieved(ctx, v)
}

// unbelieved is the refusal of a node that nobody believes. Of nodes that all refuse each other only one is to own
// anything: the one that does so already, else that of the lowest id, if that comes to it.
func (l *look) unbelieved(ctx context.Context, v verdict) error {
	lost := l.Owners.standing.lost()
	if v.why != nil {
		v.why = fmt.Errorf("all nodes that answer refuse this one's signature; AQUIFER_PEER_SECRET must be theirs, and the clock right: %w", v.why)
	}
	serves, silent := l.anyServes(ctx, v.refusers)
	switch {
	case serves:
		l.since = time.Time{}
		return v.why
	case lost != nil && (silent || v.goFirst(l.self(), lost)):
		if l.since.IsZero() {
			l.since = time.Now()
		}
		if time.Since(l.since) < patience {
			return cmp.Or(v.why, lost)
		}
	}
	l.since = time.Time{}
	return nil
}

// goFirst reports whether a node of this id, which owns nothing because it is lost, leaves it to others to come first: to one of
// a lower id, and to one that hangs, as that may be who refused it before.
func (v verdict) goFirst(self string, lost error) bool {
	return v.hang && !errors.Is(lost, errUnasked) ||
		slices.ContainsFunc(v.refusers, func(m Member) bool { return m.State == Active && m.ID < self })
}

// anyServes reports whether one of some members takes work. If none does, silent is that one of them does not say so.
func (f *Forwarder) anyServes(ctx context.Context, some []Member) (serves, silent bool) {
	ctx, cancel := context.WithTimeout(ctx, beliefTimeout)
	defer cancel()
	for _, m := range some {
		serves, err := f.serves(ctx, m)
		if serves {
			return true, false
		}
		silent = silent || err != nil
	}
	return false, silent
}

// serves reports whether a member takes work, as it tells anybody.
func (f *Forwarder) serves(ctx context.Context, m Member) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Address+"/ready", http.NoBody)
	if err != nil {
		return false, err
	}
	resp, err := f.Transport.RoundTrip(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, leftover) // so that its connection can be used again
	return resp.StatusCode == http.StatusOK, nil
}
