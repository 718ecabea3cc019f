package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// script is a node that answers one request after the other as told, the last one for ever.
type script struct {
	start    time.Time
	answers  []http.HandlerFunc
	requests []string // "<seconds> <Last-Event-ID>"
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, fmt.Sprintf("%.0f %s", time.Since(s.start).Seconds(), r.Header.Get("Last-Event-ID")))
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	answer(w, r)
}

// stream answers with the given text and hangs up.
func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

func refuse(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":"no"}`)
	}
}

// watch follows a job at a scripted node and returns the ids and names of its events.
func watch(t *testing.T, s *script, lastID string) (got []string, err error) {
	s.start = time.Now()
	c := newClient(t, client.InProcess(s))
	c.MaxBytes = 1000
	for e, failure := range c.Watch(t.Context(), "job", lastID) {
		if failure != nil {
			err = failure
			continue
		}
		got = append(got, e.ID+" "+e.Name)
	}
	return got, err
}

const (
	queued      = "id: 1\nevent: queued\ndata: {\"job_id\":\"j\",\"status\":\"queued\"}\n\n"
	dispatching = "id: 2\nevent: dispatching\ndata: {\"attempt\":1,\"job_id\":\"j\"}\n\n"
	completed   = "id: 4\nevent: completed\ndata: {\"body\":\"b\",\"job_id\":\"j\",\"response_status\":200}\n\n"
)

func TestWatchResumesWhereTheStreamBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{
			stream("retry: 3000\n\n" + queued + "id: 2\nevent: dispa"), // cut inside an event
			stream(dispatching + "event: gap\ndata: {}\n\n"),
			refuse(503, "Retry-After", "20"),
			refuse(500),
			stream(completed),
		}}
		got, err := watch(t, s, "")
		if want := []string{"1 queued", "2 dispatching", "2 gap", "4 completed"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("watched %q, %v; want %q", got, err, want)
		}
		// Waits of 3, 3, 20 and 4 s and up to a tenth of each.
		for i, window := range [][2]float64{{0, 0}, {3, 3.3}, {6, 6.6}, {26, 28.6}, {30, 33}} {
			var at float64
			var id string
			_, _ = fmt.Sscanf(s.requests[i], "%f %s", &at, &id)
			if wantID := []string{"", "1", "2", "2", "2"}[i]; id != wantID || at < window[0]-.5 || at > window[1]+.5 {
				t.Errorf("request %d at %v s from %q, want it in %v from %q", i, at, id, window, wantID)
			}
		}
	})
}

func TestWatchStartsWhereItIsTold(t *testing.T) {
	s := &script{answers: []http.HandlerFunc{stream(completed)}}
	if got, err := watch(t, s, "2"); err != nil || len(got) != 1 || s.requests[0] != "0 2" {
		t.Errorf("watched %q, %v with requests %q", got, err, s.requests)
	}
}

func TestWatchEndsWhenTheEndWasSeen(t *testing.T) {
	s := &script{answers: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }}}
	if got, err := watch(t, s, "4"); err != nil || len(got) != 0 {
		t.Errorf("watched %q, %v", got, err)
	}
}

func TestWatchGivesUp(t *testing.T) {
	for _, c := range []struct {
		name     string
		answers  []http.HandlerFunc
		text     string
		requests int
	}{
		{"unknown job", []http.HandlerFunc{refuse(404)}, "GET /jobs/job/stream: status 404: not_found: no", 1},
		{"first request refused", []http.HandlerFunc{refuse(503)}, "status 503: unavailable", 1},
		{"no stream", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }}, "is not a stream", 1},
		{"job gone in between", []http.HandlerFunc{stream(queued), refuse(404)}, "status 404", 2},
		{"nothing comes any more", []http.HandlerFunc{stream(queued), refuse(502)}, "status 502: unavailable", 9},
		{"nothing but silence", []http.HandlerFunc{stream(queued), stream("")}, "EOF", 9},
		{"event too large", []http.HandlerFunc{stream(queued), stream("data: " + strings.Repeat("x", 2000))}, "event is too large", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				_, err := watch(t, s, "")
				if err == nil || !strings.Contains(err.Error(), c.text) || len(s.requests) != c.requests {
					t.Errorf("gave up after %d requests: %v; want %d and %q", len(s.requests), err, c.requests, c.text)
				}
			})
		})
	}
}

// A stream that lives but tells nothing new is no failure.
func TestWatchLastsAsLongAsStreamsCloseInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const closing = "id: 1\nevent: closing\nretry: 1000\ndata: {\"reason\":\"life_limit\"}\n\n"
		s := &script{answers: []http.HandlerFunc{stream(queued + closing)}}
		for range 30 {
			s.answers = append(s.answers, stream(closing))
		}
		s.answers = append(s.answers, stream(completed))
		got, err := watch(t, s, "")
		if want := []string{"1 queued", "4 completed"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("watched %q, %v", got, err)
		}
	})
}

func TestWatchLeavesASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{
			func(w http.ResponseWriter, r *http.Request) {
				stream(queued)(w, r)
				for range 10 {
					time.Sleep(30 * time.Second)
					_, _ = io.WriteString(w, ": keepalive\n\n")
				}
				<-r.Context().Done()
			},
			stream(completed),
		}}
		got, err := watch(t, s, "")
		if want := []string{"1 queued", "4 completed"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("watched %q, %v", got, err)
		}
		if want := []string{"0 ", "346 1"}; !slices.Equal(s.requests, want) { // 300 s + 45 s of silence + 1 s
			t.Errorf("requests %q, want %q", s.requests, want)
		}
	})
}

func TestWatchOfASilentServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}}
		if _, err := watch(t, s, ""); err == nil || !strings.Contains(err.Error(), "silent for 45s") {
			t.Errorf("ended with %v", err)
		}
	})
}

// Whoever takes long over an event does not make the stream look dead.
func TestWatchWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{stream(queued + dispatching + completed), refuse(404)}}
		n := 0
		for _, err := range newClient(t, client.InProcess(s)).Watch(t.Context(), "job", "") {
			if n++; err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
		}
		if n != 3 {
			t.Errorf("watched %d events", n)
		}
	})
}

func TestWatchStops(t *testing.T) {
	hang := func(gone *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			stream(queued)(w, r)
			<-r.Context().Done()
			gone.Store(true)
		}
	}
	t.Run("when the caller has had enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var gone atomic.Bool
			for range newClient(t, client.InProcess(hang(&gone))).Watch(t.Context(), "job", "") {
				break
			}
			if synctest.Wait(); !gone.Load() {
				t.Error("the stream goes on")
			}
		})
	})
	t.Run("when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var gone atomic.Bool
			var last error
			for _, err := range newClient(t, client.InProcess(hang(&gone))).Watch(ctx, "job", "") {
				last = err
			}
			if synctest.Wait(); !errors.Is(last, context.DeadlineExceeded) || !gone.Load() {
				t.Errorf("ended with %v, stream gone: %v", last, gone.Load())
			}
		})
	})
	t.Run("while it waits to come back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := &script{answers: []http.HandlerFunc{stream(queued), refuse(503, "Retry-After", "600")}}
			var last error
			for _, err := range newClient(t, client.InProcess(s)).Watch(ctx, "job", "") {
				last = err
			}
			if !errors.Is(last, context.DeadlineExceeded) {
				t.Errorf("ended with %v", last)
			}
		})
	})
}

// The client stays until the server has ended the stream: it could not tell otherwise who got the end.
func TestWatchLingersForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive bool
		s := &script{answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			stream(completed)(w, r)
			time.Sleep(time.Millisecond)
			alive = r.Context().Err() == nil
		}}}
		for range newClient(t, client.InProcess(s)).Watch(t.Context(), "job", "") {
			break
		}
		if synctest.Wait(); !alive {
			t.Error("left before the server could tell")
		}
	})
	synctest.Test(t, func(t *testing.T) { // but not for ever
		s := &script{answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			stream(completed)(w, r)
			<-r.Context().Done()
		}}}
		if _, err := watch(t, s, ""); err != nil || time.Since(s.start) != time.Second {
			t.Errorf("left after %v, %v", time.Since(s.start), err)
		}
	})
}

func TestEventData(t *testing.T) {
	var got []any
	for e, err := range newClient(t, client.InProcess(stream(queued+"event: news\ndata: 1\n\n"+completed))).Watch(t.Context(), "job", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, ok, err := e.Decode()
		if err != nil || ok != (e.Name != "news") || e.Terminal() != (e.Name == "completed") {
			t.Errorf("%s: %v, %v, %v, terminal %v", e.Name, data, ok, err, e.Terminal())
		}
		got = append(got, data)
	}
	want := []any{
		events.QueuedData{JobID: "j", Status: "queued"}, nil,
		events.CompletedData{Shown: job.Shown{Body: "b"}, JobID: "j", ResponseStatus: 200},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWatchErrorsCarryTheirKind(t *testing.T) {
	_, err := watch(t, &script{answers: []http.HandlerFunc{refuse(503, "X-Aqueduct-Node-State", "draining", "Retry-After", "7")}}, "")
	var e *client.Error
	if !errors.As(err, &e) || !fault.Is(err, fault.Draining) || e.Fault.RetryAfter != 7*time.Second {
		t.Errorf("got %v", err)
	}
}
