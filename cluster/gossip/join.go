package gossip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// seekEvery is how often a node that has not settled tries to join.
	seekEvery = 500 * time.Millisecond
	// callsAtOnce bounds how many addresses are called in one attempt; which ones is left to chance, so that
	// all have their turn.
	callsAtOnce = 16
	// lostFor is how long a member that is gone is called at its old address, as the only way back where
	// the addresses to join lead to one side of a broken network.
	lostFor = 10 * time.Minute
	// refusedFor is how long nobody has refused a node when it counts as let in again: not all are called each time.
	refusedFor = 30 * time.Second
	// keySetting is what is wrong with a node that the others do not understand.
	keySetting = "AQUIFER_CLUSTER_GOSSIP_KEY"
)

// ErrRefused is why a node is unsettled that has reached a member and was not let in.
var ErrRefused = errors.New("a member does not let the node in")

// seek looks for others for ever.
func (s *session) seek(ctx context.Context) {
	for ctx.Err() == nil {
		s.attempt(ctx)
		pause := seekEvery
		if s.hasSettled() {
			pause = s.v.cfg.Tuning.Rejoin
		}
		// Half of the time is left to chance, so that nodes that started together do not stay in step.
		pause = pause/2 + rand.N(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *session) hasSettled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// attempt calls everybody who may be a member and is not known to be one. A node that has not settled calls also
// those it knows, since it waits to be known by them.
func (s *session) attempt(ctx context.Context) {
	found, silence := s.lookUpAll(ctx)
	var refused error
	for _, err := range s.callAll(s.choose(found)) {
		if errors.Is(err, ErrRefused) {
			refused = err
		} else if err != nil {
			silence = err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.refused, s.silence = refused, silence
	s.logRefusal(time.Now())
}

// logRefusal says when others begin to refuse this node, and when none has done so for a while. It is called with mu
// held.
func (s *session) logRefusal(now time.Time) {
	switch {
	case s.refused != nil && s.refusedAt.IsZero():
		s.v.deps.Logger.Warn("members refuse this node's gossip", "error", s.refused.Error(), "setting", keySetting, "settled", s.settled)
		s.refusedAt = now
	case s.refused != nil:
		s.refusedAt = now
	case s.silence == nil && !s.refusedAt.IsZero() && now.Sub(s.refusedAt) > refusedFor:
		s.v.deps.Logger.Info("members refuse this node's gossip no more", "settled", s.settled)
		s.refusedAt = time.Time{}
	}
}

// lookUpAll returns the addresses to join, and why some of them are not known.
func (s *session) lookUpAll(ctx context.Context) ([]netip.AddrPort, error) {
	found, errs := make([][]netip.AddrPort, len(s.v.join)), make([]error, len(s.v.join))
	var lookUps sync.WaitGroup
	for i, p := range s.v.join {
		lookUps.Go(func() { found[i], errs[i] = s.v.lookUp(ctx, p) })
	}
	lookUps.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// choose picks whom to call.
func (s *session) choose(found []netip.AddrPort) []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.lost, func(_ netip.AddrPort, since time.Time) bool { return time.Since(since) > lostFor })
	found = slices.AppendSeq(found, maps.Keys(s.lost))
	known := make(map[netip.AddrPort]bool)
	for _, p := range s.seen {
		known[p.at] = true
	}
	if !s.settled {
		found = slices.AppendSeq(found, maps.Keys(known))
		clear(known)
	}
	known[s.at] = true
	found = slices.DeleteFunc(found, func(a netip.AddrPort) bool {
		again := known[a]
		known[a] = true
		return again
	})
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found[:min(len(found), callsAtOnce)]
}

func (s *session) callAll(addresses []netip.AddrPort) []error {
	errs := make([]error, len(addresses))
	var calls sync.WaitGroup
	for i, a := range addresses {
		calls.Go(func() { errs[i] = s.call(a) })
	}
	calls.Wait()
	return errs
}

// call compares all that both nodes know with the node at an address.
func (s *session) call(a netip.AddrPort) error {
	_, err := s.list.Join([]string{a.String()})
	if err == nil {
		return nil
	}
	text := reason(err)
	for _, words := range []string{"could decrypt the message", "encryption is configured", "encryption is not configured"} {
		if strings.Contains(text, words) {
			return fmt.Errorf("%w: the node at %s has another gossip key", ErrRefused, a)
		}
	}
	return errors.New(text)
}

// reason is the text of an error of memberlist without the decoration for several.
func reason(err error) string {
	if several, ok := errors.AsType[interface {
		error
		WrappedErrors() []error
	}](err); ok {
		if list := several.WrappedErrors(); len(list) > 0 {
			err = list[0]
		}
	}
	return err.Error()
}
