package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/aquifer-fleet/aquifer/cluster"
)

const (
	// reviewEvery is how often a node looks whether its membership has settled.
	reviewEvery = 200 * time.Millisecond
	// reportEvery is how often the node's load is told if it has changed.
	reportEvery = 5 * time.Second
	// tellWithin bounds one attempt to pass on what is new about this node.
	tellWithin = 500 * time.Millisecond
	// asideFor is how long a node keeps silent that has stepped aside: long enough for the others to
	// take it for dead and give its id to the other node.
	asideFor = 30 * time.Second
	// lookUpWithin bounds the look-up of a name, and lookUpAgain is when it is tried again.
	lookUpWithin = 5 * time.Second
	lookUpAgain  = time.Second
)

// Aftermath is how long after Run goroutines of memberlist may still wait for timers, though nothing that they do
// counts any more; it has no way to end them. Bubbles of testing/synctest have to outlast it.
const Aftermath = 5 * time.Second

// session is one life of the node among the others, from opening the port to closing it.
type session struct {
	v       *View
	at      netip.AddrPort // where the others reach it
	started time.Time
	list    *memberlist.Memberlist

	// mu guards what memberlist's callbacks share with the session's goroutines. Callbacks come with
	// memberlist's lock held, so nobody calls memberlist with mu held.
	mu sync.Mutex
	// over: nothing that memberlist says counts any more; it has no way to tell when its last goroutine ends.
	over bool
	// seen are the others that are alive, lost are the addresses of those that were.
	seen map[string]peer
	lost map[netip.AddrPort]time.Time
	standing
}

// peer is another node as it was last heard.
type peer struct {
	tidings
	at netip.AddrPort
	// unreadable: it gossips, and what it tells of itself cannot be read.
	unreadable bool
}

// session runs one; again means that the node stepped aside and may try once more. It begins with the
// addresses that are known of the others, and adds those it has come to know.
func (v *View) session(ctx context.Context, known map[netip.AddrPort]time.Time) (again bool, err error) {
	at, err := v.whereabouts(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // it is ctx that has ended
	}
	s := &session{v: v, at: at, started: time.Now(), seen: make(map[string]peer), lost: known}
	s.began, s.changed, s.unsettled = s.started, s.started, cluster.ErrAlone
	if err := s.open(); err != nil {
		return false, fmt.Errorf("gossip at %s: %w", v.bind, err)
	}
	seeking, stop := context.WithCancel(ctx)
	var seeker sync.WaitGroup
	seeker.Go(func() { s.seek(seeking) })
	aside := s.loop(ctx)
	stop()
	s.leave(aside)
	seeker.Wait()
	if !aside {
		return false, nil
	}
	select {
	case <-time.After(asideFor):
	case <-ctx.Done():
	}
	for _, p := range s.seen {
		known[p.at] = time.Now()
	}
	return ctx.Err() == nil, nil
}

// whereabouts finds out where the others reach this node; the error is that of ctx.
func (v *View) whereabouts(ctx context.Context) (netip.AddrPort, error) {
	for {
		at, err := v.advertised(ctx)
		if err == nil {
			return at, nil
		}
		v.Edit(func(r *cluster.Roster) { r.Unsettled = err })
		select {
		case <-time.After(lookUpAgain):
		case <-ctx.Done():
			return netip.AddrPort{}, ctx.Err()
		}
	}
}

func (v *View) advertised(ctx context.Context) (netip.AddrPort, error) {
	var p place
	if v.cfg.Advertise != "" {
		p, _ = parsePlace(v.cfg.Advertise) // New has checked it
	} else if v.bind.Addr().IsValid() {
		p.host = v.bind.Addr().String()
	} else if u, err := url.Parse(v.cfg.Self.Address); err == nil {
		p.host = u.Hostname()
	}
	if p.port == 0 {
		p.port = v.bind.Port()
	}
	found, err := v.lookUp(ctx, p)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the node does not know where the others reach it: %w", err)
	}
	return found[0], nil
}

// lookUp returns the addresses of a place; there is at least one if there is no error.
func (v *View) lookUp(ctx context.Context, p place) ([]netip.AddrPort, error) {
	if at, err := netip.ParseAddr(p.host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(at.Unmap(), p.port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	addresses, err := v.deps.Resolve(ctx, p.host)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%s has no addresses", p.host)
	}
	list := make([]netip.AddrPort, len(addresses))
	for i, a := range addresses {
		list[i] = netip.AddrPortFrom(a.Unmap(), p.port)
	}
	return list, nil
}

// open opens the port and begins to gossip, with nobody yet.
func (s *session) open() error {
	logger := newScribe(s.v.deps.Logger, s.v.metrics.dropped)
	t, err := s.v.deps.Network.Listen(s.v.bind, logger)
	if err != nil {
		return err
	}
	l := newLine(t)
	if s.at.Port() == 0 {
		// Any free port was asked for; only now it is known which.
		_, port, err := t.FinalAdvertiseAddr(s.at.Addr().String(), 0)
		if auto, ok := t.(interface{ GetAutoBindPort() int }); ok {
			port = auto.GetAutoBindPort()
		}
		if err != nil {
			return errors.Join(err, l.Shutdown())
		}
		s.at = netip.AddrPortFrom(s.at.Addr(), uint16(port))
	}
	s.list, err = memberlist.Create(s.configure(l, logger))
	if err != nil {
		return errors.Join(err, l.Shutdown())
	}
	return nil
}

func (s *session) configure(l *line, logger *log.Logger) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = s.v.cfg.Self.ID
	c.Transport, c.Logger = l, logger
	c.BindPort = int(s.at.Port())
	c.AdvertiseAddr, c.AdvertisePort = s.at.Addr().String(), int(s.at.Port())
	c.Delegate, c.Events, c.Alive, c.Conflict = s, s, s, s
	s.v.cfg.Tuning.apply(c)
	if keys := s.v.cfg.Keys; len(keys) > 0 {
		c.Keyring, _ = memberlist.NewKeyring(keys[1:], keys[0]) // New has checked them
	}
	return c
}

// loop is the session until ctx ends, or until the node has to step aside.
func (s *session) loop(ctx context.Context) (aside bool) {
	review, report := time.NewTicker(reviewEvery), time.NewTicker(reportEvery)
	defer review.Stop()
	defer report.Stop()
	s.v.wake() // what was announced before there was anybody to hear it
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.v.poke:
			s.tell()
		case <-report.C:
			s.report()
		case <-review.C:
			s.review()
			if s.yields(ctx) {
				return true
			}
		}
	}
}

// tell passes on what is new about this node, again and again until memberlist reports that it was sent: what it does
// not report may have reached nobody.
func (s *session) tell() {
	waiting := s.v.waiting()
	if err := s.list.UpdateNode(tellWithin); err != nil {
		s.v.deps.Logger.Debug("what is new about the node is told again", "error", err.Error())
		s.v.wait(waiting...)
		return
	}
	for _, told := range waiting {
		told <- nil
	}
}

// report tells how busy the node is, if that has changed.
func (s *session) report() {
	s.v.metrics.strained.Set(float64(s.list.GetHealthScore()))
	if s.v.cfg.Load == nil {
		return
	}
	load := max(s.v.cfg.Load(), 0)
	if s.v.Roster().Self.ActiveTenants == load {
		return
	}
	s.v.Edit(func(r *cluster.Roster) { r.Self.ActiveTenants = load })
	s.tell()
}

// leave ends the session. A node whose id another one has says no farewell: the others know the
// leaver only by its id, and would drop the other node.
func (s *session) leave(silent bool) {
	s.mu.Lock()
	silent = silent || s.rival != nil
	s.over = true
	s.mu.Unlock()
	if !silent {
		if err := s.list.Leave(s.v.cfg.Tuning.Leave); err != nil {
			s.v.deps.Logger.Warn("the others may not know that the node has left", "error", err.Error())
		}
	}
	if err := s.list.Shutdown(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.v.deps.Logger.Warn("the gossip did not close its port", "error", err.Error())
	}
}
