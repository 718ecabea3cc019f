package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// This file is what memberlist calls. Its calls come with its lock held, so they do no more than note what they
// are told.

const (
	foreignWords    = "the node belongs to another region"
	badAddressWords = "the node has no usable address"
)

var errBadAddress = errors.New(badAddressWords)

// NodeMeta is what this node tells of itself.
func (s *session) NodeMeta(limit int) []byte {
	s.mu.Lock()
	settled := s.settled
	s.mu.Unlock()
	b, err := s.v.codec.encode(tidings{s.v.Roster().Self, s.started, settled})
	if err != nil || len(b) > limit {
		// New has seen that it fits; a node without a card is left out by the others.
		s.v.deps.Logger.Error("the node cannot say who it is", "bytes", len(b), "limit", limit)
		return nil
	}
	return b
}

// LocalState is whom this node has seen, for a node that wants to join and for one that is asked to let it in.
func (s *session) LocalState(join bool) []byte {
	if !join {
		return nil
	}
	s.mu.Lock()
	r := roll{From: s.v.cfg.Self.ID, Seen: make(map[string]sighting, len(s.seen))}
	for id, p := range s.seen {
		r.Seen[id] = sighting{p.at.String(), p.started.UnixMilli()}
	}
	s.mu.Unlock()
	b, err := s.v.codec.encodeRoll(r)
	if err != nil {
		return nil // who gets it goes on waiting, and asks another member
	}
	return b
}

// MergeRemoteState hears whom another node has seen, among them perhaps this one. That its address is known
// there is not enough: another process may have had it, which could not be told from this one's own answer.
func (s *session) MergeRemoteState(b []byte, _ bool) {
	r, err := s.v.codec.decodeRoll(b)
	if err != nil {
		s.v.metrics.dropped.WithLabelValues(dropMalformed).Inc()
		return
	}
	if self := s.v.cfg.Self.ID; r.From != self && r.Seen[self] == (sighting{s.at.String(), s.started.UnixMilli()}) {
		s.mu.Lock()
		s.accepted, s.acceptedAt = true, time.Now()
		s.mu.Unlock()
	}
}

// NotifyMsg is for messages of other kinds; there are none.
func (s *session) NotifyMsg([]byte) {}

// GetBroadcasts has nothing to send.
func (s *session) GetBroadcasts(int, int) [][]byte { return nil }

// NotifyAlive keeps out who is not of this cluster.
func (s *session) NotifyAlive(n *memberlist.Node) error {
	if n.Name == s.v.cfg.Self.ID {
		return nil
	}
	if !addressOf(n.Addr, n.Port).IsValid() {
		return errBadAddress
	}
	// Who cannot be read stays in: it may be of a later release, and the nodes of that release reach
	// each other through it.
	heard, err := s.v.codec.decode(n.Name, n.Meta)
	if err == nil && heard.member.Region != s.v.cfg.Self.Region {
		return fmt.Errorf(foreignWords+": %q, not %q", heard.member.Region, s.v.cfg.Self.Region)
	}
	return nil
}

// NotifyJoin notes a node that has come, or come back.
func (s *session) NotifyJoin(n *memberlist.Node) {
	s.hear(n, func() {
		s.changed = time.Now()
		s.v.metrics.changes.WithLabelValues("joined").Inc()
		s.v.deps.Logger.Info("a member has come", "member", n.Name, "at", s.seen[n.Name].at.String())
	})
}

// NotifyUpdate notes what has changed about a node.
func (s *session) NotifyUpdate(n *memberlist.Node) { s.hear(n, func() {}) }

// NotifyLeave notes that a node has left or died.
func (s *session) NotifyLeave(n *memberlist.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.seen[n.Name]
	if s.over || !known {
		return
	}
	delete(s.seen, n.Name)
	s.lost[p.at] = time.Now()
	s.changed = time.Now()
	s.v.metrics.changes.WithLabelValues("left").Inc()
	s.v.deps.Logger.Info("a member is gone", "member", n.Name, "at", p.at.String())
	s.show()
}

func (s *session) hear(n *memberlist.Node, then func()) {
	if n.Name == s.v.cfg.Self.ID {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	heard, err := s.v.codec.decode(n.Name, n.Meta)
	p := peer{at: addressOf(n.Addr, n.Port), tidings: heard, unreadable: err != nil}
	if before := s.seen[n.Name]; p.unreadable && !before.unreadable {
		s.v.deps.Logger.Warn("a node is left out: what it tells of itself cannot be read",
			"member", n.Name, "at", p.at.String(), "error", err.Error())
	}
	s.seen[n.Name] = p
	delete(s.lost, p.at)
	then()
	s.show()
}

// NotifyConflict hears that an id is at two addresses.
func (s *session) NotifyConflict(_, other *memberlist.Node) {
	if other.Name != s.v.cfg.Self.ID {
		return // it is told itself
	}
	heard, err := s.v.codec.decode(other.Name, other.Meta)
	at := addressOf(other.Addr, other.Port)
	if err != nil {
		heard.member.Address = at.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rival{tidings: heard, at: at, heard: time.Now()}
	if !r.outranks(s) {
		s.warned(r)
		return // it sees it the same way, and waits or steps aside
	}
	s.rival = r
	if !s.settled {
		s.accepted, s.changed = false, time.Now()
	}
}

// show makes the roster what has been seen. It is called with mu held.
func (s *session) show() {
	if s.over {
		return
	}
	members := make([]cluster.Member, 0, len(s.seen))
	unread := 0
	for _, p := range s.seen {
		if p.unreadable {
			unread++
			continue
		}
		members = append(members, p.member)
	}
	s.v.metrics.unread.Set(float64(unread))
	unsettled := s.unsettled
	s.v.Edit(func(r *cluster.Roster) { r.Members, r.Unsettled = members, unsettled })
}

// addressOf is not valid if the node could not be reached there.
func addressOf(ip net.IP, port uint16) netip.AddrPort {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || port == 0 || a.IsUnspecified() || a.IsMulticast() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap(), port)
}
