package events_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/events"
)

func TestFollowEndedJob(t *testing.T) {
	l := tried(1)
	l.begin()
	l.complete("")
	for lastID, want := range map[string]string{
		"":  "1 queued, 6 completed",
		"3": "4 dispatching, 6 completed",
		"6": "",
		"9": "0 gap, 1 queued, 2 dispatching, 3 retrying, 4 dispatching, 6 completed",
	} {
		t.Run("after "+lastID, func(t *testing.T) {
			s := newHub(8).Subscribe(testID)
			defer s.Close()
			list, err := drain(t, events.Follow(s, l.s, lastID).Next)
			if !errors.Is(err, io.EOF) {
				t.Errorf("error %v, want io.EOF", err)
			}
			wantRow(t, list, want)
		})
	}
}

func TestFollowGoesOnLive(t *testing.T) {
	h := newHub(8)
	s := h.Subscribe(testID)
	defer s.Close()
	l := tried(1)
	h.Publish(testID, l.begin()) // is in the snapshot too
	st := events.Follow(s, l.s, "")
	if st.Last() != 0 {
		t.Errorf("at %d before the first event", st.Last())
	}
	h.Publish(testID, l.retry())
	h.Publish(testID, l.position(2))
	list, err := drain(t, st.Next)
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, list, "1 queued, 4 dispatching, 5 retrying, 5 position")
	if st.Last() != 5 {
		t.Errorf("at %d after event 5", st.Last())
	}
	h.CloseAll()
	if _, err := st.Next(t.Context()); !errors.Is(err, events.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

func TestLastBeforeTheFirstEvent(t *testing.T) {
	l := tried(2)
	for lastID, want := range map[string]int{"": 0, "4": 4, "5": 5, "x": 0, "77": 0} {
		s := newHub(8).Subscribe(testID)
		if got := events.Follow(s, l.s, lastID).Last(); got != want {
			t.Errorf("after %q: at %d, want %d", lastID, got, want)
		}
		s.Close()
	}
}

// What a slow listener lost while it read the job, the job told: that is no gap.
func TestFollowPassesOverAGapThatTheReplayFills(t *testing.T) {
	h := newHub(1)
	s := h.Subscribe(testID)
	defer s.Close()
	l := newLife()
	for range 3 {
		h.Publish(testID, l.begin())
		h.Publish(testID, l.retry())
	}
	st := events.Follow(s, l.s, "1")
	h.Publish(testID, l.begin())
	list, _ := drain(t, st.Next)
	wantRow(t, list, "2 dispatching, 3 retrying, 4 dispatching, 5 retrying, 6 dispatching, 7 retrying, 8 dispatching")
}

// At whatever moment a listener subscribes, reads the job and reads its events, it hears each
// event that lasts once, in order, up to the end and nothing behind it.
func TestMergeNeitherLosesNorDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHub(1000)
		l := newLife()
		var told []int // ids of all events that last
		told = append(told, 1)
		publish := func(e events.Event) {
			told = append(told, e.Seq)
			h.Publish(testID, e)
		}
		step := func(t *rapid.T) {
			if l.s.State.Phase().Ended() {
				h.Publish(testID, tried(0).begin()) // a stray
				return
			}
			open := l.s.State.Tried > len(l.s.State.Attempts)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				h.Publish(testID, l.position(rapid.IntRange(1, 9).Draw(t, "position")))
			case 1:
				if open {
					publish(l.complete(""))
				} else {
					publish(l.drop())
				}
			default:
				if open {
					publish(l.retry())
				} else {
					publish(l.begin())
				}
			}
		}
		steps := func(label string) {
			for range rapid.IntRange(0, 6).Draw(t, label) {
				step(t)
			}
		}

		steps("before subscribing")
		sub := h.Subscribe(testID)
		defer sub.Close()
		steps("before reading the job")
		snapshot := l.s
		lastID, seen := "", 0
		if rapid.Bool().Draw(t, "resumes") {
			seen = rapid.SampledFrom(append([]int{0}, told...)).Draw(t, "seen")
			lastID = strconv.Itoa(seen)
		}
		reached := events.CursorAt(snapshot).Seq
		stream := events.Follow(sub, snapshot, lastID)
		steps("before reading the events")
		var got []int
		ended := false
		read := func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			for {
				e, err := stream.Next(ctx)
				if err != nil {
					ended = errors.Is(err, io.EOF)
					return
				}
				if e.Name == events.NamePosition {
					if e.Seq < stream.Last() {
						t.Fatalf("position of event %d after event %d", e.Seq, stream.Last())
					}
					continue
				}
				got = append(got, e.Seq)
			}
		}
		read()
		steps("while it reads")
		read()

		var want []int
		for _, seq := range told {
			switch {
			case seq > reached, lastID != "" && seq > seen, lastID == "" && (seq == 1 || seq == reached):
				want = append(want, seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v of %v, read at %d, last id %q", got, want, told, reached, lastID)
		}
		if ended != l.s.State.Phase().Ended() {
			t.Fatalf("stream ended: %v; job ended: %v", ended, l.s.State.Phase().Ended())
		}
	})
}

// Whatever a listener is told and whenever, each cursor only moves on, and stops at the end.
func TestCursorOnlyMovesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c events.Cursor
		for range rapid.IntRange(0, 50).Draw(t, "events") {
			seq := rapid.IntRange(0, 12).Draw(t, "seq")
			e := events.Event{Seq: seq, Name: rapid.SampledFrom([]string{
				events.NameDispatching, events.NameRetrying, events.NamePosition, events.NameGap, events.NameFailed,
			}).Draw(t, "name")}
			next, taken := c.Take(e)
			switch {
			case next.Seq < c.Seq, c.Ended && (taken || !next.Ended), !taken && next != c:
				t.Fatalf("%+v took %+v (%v) and became %+v", c, e, taken, next)
			case taken && e.Name != events.NamePosition && e.Seq <= c.Seq,
				taken && e.Name == events.NamePosition && e.Seq < c.Seq: // of a time that is over
				t.Fatalf("%+v took %+v", c, e)
			}
			c = next
		}
	})
}
