package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	warned := false
	for {
		news := f.Owners.fields.view.Changes()
		if f.Owners.fields.view.Roster().Unsettled == nil {
			why := f.refusal(ctx)
			if ctx.Err() != nil {
				return
			}
			f.Owners.standing.set(why)
			switch {
			case why != nil && !warned:
				f.Logger.WarnContext(ctx, "the node takes no work", "error", why)
			case why == nil && warned:
				f.Logger.InfoContext(ctx, "the node takes work again: its signature is no longer refused")
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

// refusal says why this node must own nothing: of the others that answer none believes its seal, and it is not the one of
// them to stay; nil if it may. As a rule it costs one request, as the next member in the order of ids believes it.
func (f *Forwarder) refusal(ctx context.Context) error {
	others := f.others()
	next := min(1, len(others))
	var refusers []Member
	var why error
	for _, some := range [][]Member{others[:next], others[next:]} {
		v := f.poll(ctx, some)
		if v.believed {
			return nil
		}
		refusers, why = append(refusers, v.refusers...), cmp.Or(why, v.why)
	}
	if !f.yields(ctx, refusers) {
		return nil
	}
	return fmt.Errorf("all nodes that answer refuse this one's signature; AQUIFER_PEER_SECRET must be theirs, and the clock right: %w", why)
}

// yields reports whether one of the members that refuse this node goes before it. Of nodes that all refuse each other only
// one is to own anything: the one that does so already, else that of the lowest id.
func (f *Forwarder) yields(ctx context.Context, refusers []Member) bool {
	ctx, cancel := context.WithTimeout(ctx, beliefTimeout)
	defer cancel()
	stands, self := f.Owners.Unsettled() == nil, f.self()
	return slices.ContainsFunc(refusers, func(m Member) bool { return !stands && m.ID < self || f.serves(ctx, m) })
}

// serves reports whether a member takes work, as it tells anybody.
func (f *Forwarder) serves(ctx context.Context, m Member) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Address+"/ready", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := f.Transport.RoundTrip(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
