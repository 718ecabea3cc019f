package events_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// A late message does not move a finished job.
func TestST01_NothingAfterTheEnd(t *testing.T) {
	h := newHub(8)
	s := h.Subscribe(testID)
	defer s.Close()
	l := tried(1)
	h.Publish(testID, l.begin())
	h.Publish(testID, l.complete("")) // an end that nobody waits for
	if h.Listening(testID) {
		t.Error("somebody still listens to a job that has ended")
	}
	late := tried(0)
	h.Publish(testID, events.Queued(testID))
	h.Publish(testID, late.begin())
	h.End(canceled(t), testID, tried(3).drop())
	wantDrained(t, s, "4 dispatching, 6 completed", io.EOF)
}

func TestEndWaitsForOneConfirmation(t *testing.T) {
	for name, c := range map[string]struct {
		listener  func(*events.Subscription) // runs beside End; nil: nobody listens
		confirmed bool
		took      time.Duration
	}{
		"nobody listens":       {nil, false, 0},
		"nobody confirms":      {func(*events.Subscription) {}, false, wait},
		"confirmed in time":    {func(s *events.Subscription) { time.Sleep(time.Second); s.Confirm() }, true, time.Second},
		"confirmed too late":   {func(s *events.Subscription) { time.Sleep(wait + 1); s.Confirm() }, false, wait},
		"the listener leaves":  {func(s *events.Subscription) { time.Sleep(time.Second); s.Close() }, false, time.Second},
		"patient, confirmed":   {func(s *events.Subscription) { s.Wait(); time.Sleep(time.Hour); s.Confirm() }, true, time.Hour},
		"patient, left":        {func(s *events.Subscription) { s.Wait(); s.Wait(); time.Sleep(time.Hour); s.Close() }, false, time.Hour},
		"patient, left soon":   {func(s *events.Subscription) { s.Wait(); s.Close(); s.Wait() }, false, 0},
		"confirmed, then left": {func(s *events.Subscription) { s.Confirm(); s.Close() }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHub(8)
				l := tried(0)
				l.begin()
				end := l.complete("")
				var listening sync.WaitGroup
				if c.listener != nil {
					s := h.Subscribe(testID)
					defer s.Close()
					listening.Go(func() {
						if e, err := s.Next(t.Context()); err != nil || !e.Terminal() {
							t.Errorf("got %s, %v, want the end", e.Name, err)
						}
						c.listener(s)
					})
				}
				start := time.Now()
				if got := h.End(t.Context(), testID, end); got != c.confirmed {
					t.Errorf("confirmed %v, want %v", got, c.confirmed)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				listening.Wait()
			})
		})
	}
}

// A listener that is not patient makes the end wait no longer because another one is; when that one has left, the wait is over.
func TestEndWaitsForThePatientOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(8)
		frozen, patient := h.Subscribe(testID), h.Subscribe(testID)
		defer frozen.Close()
		patient.Wait()
		time.AfterFunc(time.Minute, patient.Close)
		l := tried(0)
		l.begin()
		start := time.Now()
		if h.End(t.Context(), testID, l.complete("")) {
			t.Error("confirmed by nobody")
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// A frozen client never confirms, so the result is owed to the webhook after the wait; a second
// client that does confirm settles it.
func TestWH08_FrozenClient(t *testing.T) {
	for name, second := range map[string]bool{"alone": false, "beside a live one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHub(8)
				frozen, live := h.Subscribe(testID), h.Subscribe(testID)
				defer frozen.Close()
				if second {
					go func() {
						_, _ = live.Next(t.Context())
						live.Confirm()
						live.Close()
					}()
				} else {
					live.Close()
				}
				l := tried(0)
				l.begin()
				if got := h.End(t.Context(), testID, l.complete("")); got != second {
					t.Errorf("confirmed %v, want %v", got, second)
				}
				wantDrained(t, frozen, "4 completed", io.EOF)
			})
		})
	}
}

// A listener that found the end in the store before it was published confirms before End is called.
func TestConfirmedBeforeTheEndWasPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(8)
		s := h.Subscribe(testID)
		defer s.Close()
		s.Confirm()
		l := tried(0)
		start := time.Now()
		if !h.End(t.Context(), testID, l.drop()) || time.Since(start) != 0 {
			t.Errorf("the confirmation did not count at once, after %v", time.Since(start))
		}
	})
}

func TestEndGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(8)
		s := h.Subscribe(testID)
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if h.End(ctx, testID, tried(0).drop()) || time.Since(start) != time.Second {
			t.Errorf("End returned after %v", time.Since(start))
		}
	})
}

// Streams never end by themselves, so a shutdown ends them: each gets what it was told before.
func TestSE07_CloseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(8)
		var done sync.WaitGroup
		for i := range 500 {
			s := h.Subscribe(job.ID{15: byte(i), 14: byte(i >> 8)})
			done.Go(func() {
				defer s.Close()
				if _, err := s.Next(t.Context()); !errors.Is(err, events.ErrClosed) {
					t.Errorf("error %v, want ErrClosed", err)
				}
			})
		}
		busy := h.Subscribe(testID)
		l := tried(0)
		h.Publish(testID, l.begin())
		synctest.Wait()
		h.CloseAll()
		h.CloseAll()
		done.Wait()
		wantDrained(t, busy, "2 dispatching", events.ErrClosed)
		busy.Close()

		late := h.Subscribe(testID)
		wantDrained(t, late, "", events.ErrClosed)
		late.Close()
		h.Publish(testID, l.retry())
		if h.End(t.Context(), testID, l.drop()) {
			t.Error("confirmed by nobody")
		}
	})
}
