package events

import (
	"context"
	"io"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// Cursor is how far a stream has told its job's history. It decides which live event continues it:
// one that the replay has told already is passed over, and so is everything after the end.
type Cursor struct {
	Seq   int  // the last event that was told
	Ended bool // it was the end
}

// CursorAt is the cursor of a stream that has told everything in s.
func CursorAt(s job.Snapshot) Cursor {
	list, _ := history(s)
	last := list[len(list)-1]
	return Cursor{Seq: last.Seq, Ended: last.Terminal()}
}

// Take reports whether e is to be told, and the cursor after it.
func (c Cursor) Take(e Event) (Cursor, bool) {
	switch {
	case c.Ended:
		return c, false
	case e.Name == NameGap || e.lasting():
		if e.Seq <= c.Seq {
			return c, false
		}
		return Cursor{Seq: e.Seq, Ended: e.Terminal()}, true
	default:
		return c, e.Seq >= c.Seq // else it speaks of what is over
	}
}

// Stream is everything that one listener is told about a job: first what it missed, then what
// happens. One goroutine owns it.
type Stream struct {
	live   *Subscription
	replay []Event
	cursor Cursor // where the stream stands once the replay is told
	last   int
}

// Follow makes the stream of a listener that has seen the events up to lastID; empty if it has seen
// none. live must have been opened before s was read: so no event falls between them.
func Follow(live *Subscription, s job.Snapshot, lastID string) *Stream {
	missed, gap := Since(s, lastID)
	st := &Stream{live: live, replay: missed, cursor: CursorAt(s)}
	if gap != nil {
		st.replay = append([]Event{*gap}, missed...)
		return st
	}
	st.last, _ = parseID(lastID)
	return st
}

// Next returns the next event, waiting for it if need be. It returns io.EOF once the end of the job
// was told, ErrClosed if the subscription or the hub closed before, and ctx's error when ctx ends.
func (st *Stream) Next(ctx context.Context) (Event, error) {
	if len(st.replay) > 0 {
		e := st.replay[0]
		st.replay = st.replay[1:]
		st.last = e.Seq
		return e, nil
	}
	for !st.cursor.Ended {
		e, err := st.live.Next(ctx)
		if err != nil {
			return Event{}, err
		}
		next, ok := st.cursor.Take(e)
		if ok {
			st.cursor, st.last = next, next.Seq
			return e, nil
		}
	}
	return Event{}, io.EOF
}

// Last is the id of the last event that was told; what is put into the stream beside the job's own
// events carries it.
func (st *Stream) Last() int { return st.last }
