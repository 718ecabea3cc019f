package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/aquifer-fleet/aquifer/cluster"
)

const (
	// calm is how long nobody has come or gone when a membership has settled.
	calm = time.Second
	// rivalFor is how long a node of the same id counts that is not heard of again. While it is there, each
	// attempt to join hears of it, and one takes up to four seconds. acceptedFor is the same for a node that
	// another member has let in meanwhile.
	rivalFor    = 10 * time.Second
	acceptedFor = 5 * time.Second
	// rivalPings is how often it is called before it is taken for a rumour.
	rivalPings = 3
)

var (
	errJoining = errors.New("the other members have not taken the node in yet")
	errMoving  = errors.New("members are still coming and going")
)

// standing is what a session knows of its place among the others.
type standing struct {
	began   time.Time
	changed time.Time // when a member came or went, or a rival was heard of
	// accepted: another member has seen this very process.
	accepted   bool
	acceptedAt time.Time // the last time that one said so
	rival      *rival
	// refused is how a node that was reached did not let this one in; silence is why others were not reached.
	// Both are of the last attempt.
	refused, silence error
	// refusedAt is when another node refused this one last; zero if that is over, or never was.
	refusedAt time.Time
	// settled stays once it is true: a node that has settled goes on alone if it must.
	settled   bool
	unsettled error
	said      netip.AddrPort // the rival that was logged last
}

// rival is another node of this node's id, for which this one has to wait or step aside.
type rival struct {
	tidings
	at    netip.AddrPort
	heard time.Time
}

// outranks reports whether the session has to step aside for the rival: one that has settled goes before one that
// has not, then the one that started first.
func (r *rival) outranks(s *session) bool {
	switch {
	case r.settled != s.settled:
		return r.settled
	case !r.started.Equal(s.started):
		return r.started.Before(s.started)
	default:
		return r.at.Compare(s.at) < 0
	}
}

func (r *rival) isGone(now time.Time, accepted bool) bool {
	quiet := now.Sub(r.heard)
	return quiet > rivalFor || accepted && quiet > acceptedFor
}

// check says why a node must not rely on its roster yet; nil if it may. others is how many nodes it has seen.
func (s standing) check(now time.Time, self string, others int, joins bool, patience time.Duration) error {
	switch {
	case s.rival != nil:
		return &cluster.TakenError{ID: self, Address: s.rival.member.Address}
	case s.refused != nil && !s.accepted:
		return s.refused
	case others > 0 && !s.accepted:
		return errJoining
	case others > 0 && now.Sub(s.changed) < calm && now.Sub(s.began) < patience:
		return errMoving
	case others == 0 && joins && now.Sub(s.began) < patience:
		if s.silence != nil {
			return fmt.Errorf("no other member was found yet: %w", s.silence)
		}
		return errors.New("no other member was found yet")
	}
	return nil
}

// review looks whether the membership has settled.
func (s *session) review() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled {
		return
	}
	now := time.Now()
	if s.rival != nil && s.rival.isGone(now, s.accepted) {
		s.rival = nil
	}
	s.unsettled = s.check(now, s.v.cfg.Self.ID, len(s.seen), len(s.v.join)+len(s.lost) > 0, s.v.cfg.Tuning.Patience)
	if s.unsettled == nil {
		s.settled = true
		s.v.wake() // the others are told
		s.v.deps.Logger.Info("the membership has settled", "others", len(s.seen), "after_ms", now.Sub(s.began).Milliseconds())
		if len(s.seen) == 0 && len(s.v.join) > 0 {
			s.v.deps.Logger.Warn("nobody was found, the node goes on alone and keeps looking")
		}
	}
	s.show()
}

// yields reports whether the node has to step aside for another one of its id: it is in the views of some members, and
// the other one is there. A node that nobody has let in just waits.
func (s *session) yields(ctx context.Context) bool {
	s.mu.Lock()
	r, settled, inViews := s.rival, s.settled, time.Since(s.acceptedAt) < rivalFor
	s.mu.Unlock()
	if r == nil || !settled && !inViews {
		return false
	}
	alive := s.answers(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if settled {
		s.rival = nil // one that is there is heard of again; else somebody does not know yet that this node has moved
	}
	if !alive {
		return false
	}
	taken := &cluster.TakenError{ID: s.v.cfg.Self.ID, Address: r.member.Address}
	s.v.deps.Logger.Error("the node steps aside", "error", taken.Error())
	s.rival, s.unsettled = r, taken
	s.show()
	return true
}

// warned says once of each rival that it is there. It is called with mu held.
func (s *session) warned(r *rival) {
	if s.said != r.at {
		s.v.deps.Logger.Warn("another node has this node's id", "address", r.member.Address, "at", r.at.String())
	}
	s.said = r.at
}

// answers reports whether the rival is there.
func (s *session) answers(ctx context.Context, r *rival) bool {
	for range rivalPings {
		if ctx.Err() != nil {
			return false
		}
		if _, err := s.list.Ping(s.v.cfg.Self.ID, net.UDPAddrFromAddrPort(r.at)); err == nil {
			return true
		}
	}
	return false
}
