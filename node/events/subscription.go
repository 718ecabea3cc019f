package events

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// ErrClosed is what a subscription says that was closed, or whose hub was.
var ErrClosed = errors.New("events: subscription closed")

// Subscription is one listener's view of what happens to a job. One goroutine calls Next; Confirm and
// Close may be called by any.
type Subscription struct {
	hub   *Hub
	id    job.ID
	topic *topic
	// ready has a token when something may have come since the last look.
	ready chan struct{}

	// The mutex of the shard guards these.
	waiting []Event
	lost    int  // id of the last event that was dropped and not yet reported; 0 for none
	left    bool // closed by its listener
	ended   bool // the end of the job was put into waiting
	patient bool // Hub.End waits for it beyond Config.Wait
}

// put adds an event for the listener and returns how many progress events that cost it. Only the
// latest position is kept, and it never displaces anything. Beyond limit the oldest event goes, and
// the listener will be told so. The end is always added; its topic sees to it that nothing follows.
func (s *Subscription) put(e Event, limit int) (dropped int) {
	s.waiting = slices.DeleteFunc(s.waiting, func(old Event) bool { return old.Name == NamePosition })
	switch full := len(s.waiting) >= limit; {
	case full && e.Name == NamePosition:
		return 1
	case full:
		s.lost = s.waiting[0].Seq
		s.waiting = slices.Delete(s.waiting, 0, 1)
		dropped = 1
	}
	s.waiting = append(s.waiting, e)
	s.ended = e.Terminal()
	s.wake()
	return dropped
}

// wake makes Next look again.
func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next event, waiting for it if need be. It returns io.EOF after the end of the job,
// ErrClosed once the subscription or its hub is closed and everything told before was taken, and
// ctx's error when ctx ends.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		closed := s.hub.isClosed() // looked at first: what was told before it is given out
		if e, err := s.take(); err != nil || e.Name != "" {
			return e, err
		}
		if closed {
			return Event{}, ErrClosed
		}
		select {
		case <-s.ready:
		case <-s.hub.closed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

func (h *Hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// take returns what comes next, the zero Event if nothing does yet.
func (s *Subscription) take() (Event, error) {
	sh := s.hub.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case s.left:
		return Event{}, ErrClosed
	case len(s.waiting) > 0 && s.lost > 0:
		gap := Gap(s.waiting[0].Seq, GapSlowReader)
		gap.Seq, s.lost = s.lost, 0
		return gap, nil
	case len(s.waiting) > 0:
		e := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		return e, nil
	case s.ended:
		return Event{}, io.EOF
	default:
		return Event{}, nil
	}
}

// Confirm says that the client has the end of the job: it was written to the socket and flushed, and taken as
// far as can be known. It counts until Hub.End has given up waiting.
func (s *Subscription) Confirm() { s.hub.confirm(s) }

// Wait has Hub.End wait for this listener until it confirms or closes, however long that takes. It is for a listener that
// hands out the result by itself, at its client's pace, and is sure to close.
func (s *Subscription) Wait() { s.hub.wait(s) }

// Close ends the subscription. Calling it again does nothing.
func (s *Subscription) Close() { s.hub.leave(s) }
