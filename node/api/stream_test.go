package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// open opens the stream of job 1. The test closes it, or it ends with the test.
func open(t *testing.T, rt http.RoundTripper, lastID string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node/jobs/"+idOf(1).String()+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// heard is a part of a stream and when it came.
type heard struct {
	at   time.Duration
	text string
}

// listen reads a stream block by block until it ends.
func listen(t *testing.T, resp *http.Response) []heard {
	t.Helper()
	var list []heard
	var block strings.Builder
	start := time.Now()
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadString('\n')
		if line == "\n" {
			list = append(list, heard{time.Since(start), block.String()})
			block.Reset()
			continue
		}
		block.WriteString(line)
		if err != nil {
			if !errors.Is(err, io.EOF) || block.Len() > 0 {
				t.Errorf("the stream broke: %v behind %q", err, block.String())
			}
			return list
		}
	}
}

func texts(list []heard) string {
	var b strings.Builder
	for _, h := range list {
		b.WriteString(h.text + "\n")
	}
	return b.String()
}

func TestStreamOfEndedJob(t *testing.T) {
	f := newFake()
	f.put(ended(queuedJob(1, 1), job.Result{Status: 200, Body: []byte("a\nb <c>")}))
	resp := open(t, client.InProcess(f.handler()), "")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	id := idOf(1).String()
	want := "retry: 2000\n\n" +
		"id: 1\nevent: queued\ndata: {\"job_id\":\"" + id + "\",\"status\":\"queued\"}\n\n" +
		"id: 4\nevent: completed\ndata: {\"body\":\"a\\nb \\u003cc\\u003e\",\"job_id\":\"" + id + "\",\"response_status\":200}\n\n"
	if got := texts(listen(t, resp)); got != want {
		t.Errorf("streamed\n%s, want\n%s", got, want)
	}
}

func TestStreamOfWholeLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var asked []job.Order
		f.standing = func(_ context.Context, e job.Entry) (api.Standing, bool, error) {
			asked = append(asked, e.Order)
			if len(asked) == 2 {
				return api.Standing{}, false, errors.New("disk busy")
			}
			return api.Standing{Position: int(e.Order)}, true, nil
		}
		s := f.put(queuedJob(1, 7))
		var got []string
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			for e, err := range f.client(t).Watch(t.Context(), idOf(1).String(), "") {
				if err != nil {
					t.Error(err)
				}
				got = append(got, e.ID+" "+e.Name)
			}
		}()
		time.Sleep(7 * time.Second) // positions at 2, 4 (fails) and 6 s
		s.State, _ = s.State.Begin(1)
		f.put(s)
		f.hub.Publish(idOf(1), events.Dispatching(s))
		time.Sleep(6 * time.Second) // in flight: none
		s.State, _ = s.State.Retry(job.Attempt{Number: 1, Status: 503, RetryWaitMS: 4500}, time.Now().Add(4500*time.Millisecond).UnixMilli())
		f.put(s)
		f.hub.Publish(idOf(1), events.Retrying(s, "upstream returned 503"))
		time.Sleep(4500 * time.Millisecond) // backing off: none
		s.State.DueAt, s.State.Order = 0, 9
		f.put(s)
		time.Sleep(2 * time.Second) // in its lane again: one
		s.State, _ = s.State.Begin(2)
		f.hub.Publish(idOf(1), events.Dispatching(s))
		time.Sleep(time.Second)
		s.State, _ = s.State.Finish(job.End{Status: job.Completed, Last: &job.Attempt{Number: 2, Status: 200}, Result: &job.Result{Status: 200}})
		f.put(s)
		if !f.hub.End(t.Context(), idOf(1), events.Terminal(s, nil)) {
			t.Error("the client read the end, but it is not confirmed")
		}
		<-watching
		want := []string{"1 queued", "1 position", "1 position", "2 dispatching", "3 retrying", "3 position", "4 dispatching", "6 completed"}
		if !slices.Equal(got, want) {
			t.Errorf("streamed %q, want %q", got, want)
		}
		if want := []job.Order{7, 7, 7, 9}; !slices.Equal(asked, want) {
			t.Errorf("asked for places %v, want %v", asked, want)
		}
		if f.hub.Listening(idOf(1)) {
			t.Error("somebody still listens")
		}
	})
}

// SE-01: who asks for what is no longer kept is told so first.
func TestSE01_GapIsToldFirst(t *testing.T) {
	f := newFake()
	s := queuedJob(1, 1)
	for n := 1; n <= 80; n++ { // of 80 attempts, the first and the last 49 are kept
		s.State, _ = s.State.Begin(n)
		s.State, _ = s.State.Retry(job.Attempt{Number: n, Status: 500, RetryWaitMS: 1}, 1)
	}
	s.State, _ = s.State.Finish(job.End{Status: job.Failed, Reason: "upstream returned 500"})
	f.put(s)
	rt := client.InProcess(f.handler())
	for _, c := range []struct {
		lastID, gap, next string
		events            int // behind the gap
	}{
		{"5", `"oldest":64,"reason":"trimmed"`, "64", 99},
		{"1000", `"oldest":64,"reason":"future"`, "64", 99},
		{"x", `"oldest":64,"reason":"malformed"`, "64", 99},
		{"100", "", "101", 62},
		{"161", "", "162", 1},
	} {
		list := listen(t, open(t, rt, c.lastID))[1:] // behind the retry
		if c.gap != "" {
			if !strings.Contains(list[0].text, "event: gap\ndata: {"+c.gap+"}") {
				t.Errorf("from %s: first is %q, want gap %s", c.lastID, list[0].text, c.gap)
			}
			list = list[1:]
		}
		if len(list) != c.events || !strings.HasPrefix(list[0].text, "id: "+c.next+"\n") {
			t.Errorf("from %s: %d events from %q on, want %d from %s on", c.lastID, len(list), list[0].text, c.events, c.next)
		}
	}
}

func TestStreamEndsForWhoHasSeenTheEnd(t *testing.T) {
	f := newFake()
	f.put(ended(queuedJob(1, 1), job.Result{Status: 200}))
	if resp := open(t, client.InProcess(f.handler()), "4"); resp.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, want 204", resp.StatusCode)
	}
	for _, err := range f.client2(t).Watch(t.Context(), idOf(1).String(), "4") {
		t.Errorf("the watch goes on: %v", err)
	}
}

// client2 is a client of another face of the same node.
func (f *fake) client2(t *testing.T) *client.Client {
	return f.client(t, func(c *api.Config) { c.Registerer = nil })
}

func TestSE03_IdleStreamStaysAliveUntilItsLimit(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.put(queuedJob(1, 1))
			resp := open(t, transport(t, serve(t, f.handler()), h2), "")
			if resp.ProtoMajor != 1 && !h2 || resp.ProtoMajor != 2 && h2 {
				t.Errorf("HTTP/%d", resp.ProtoMajor)
			}
			list := listen(t, resp)
			if list[0] != (heard{0, "retry: 2000\n"}) || list[1].at != 0 || !strings.HasPrefix(list[1].text, "id: 1\nevent: queued\n") {
				t.Errorf("starts with %v", list[:2])
			}
			for i := 1; i < len(list); i++ {
				if silence := list[i].at - list[i-1].at; silence > 15*time.Second {
					t.Errorf("silent for %v at %v", silence, list[i-1].at)
				}
				if i > 1 && i < len(list)-1 && list[i].text != ": keepalive\n" {
					t.Errorf("%q among the comments", list[i].text)
				}
			}
			last := list[len(list)-1]
			if last != (heard{time.Hour, "id: 1\nevent: closing\nretry: 2000\ndata: {\"reason\":\"life_limit\"}\n"}) {
				t.Errorf("ends with %v", last)
			}
		})
	}
}

// A client follows a job through stream after stream and misses nothing.
func TestSE03_ClientOutlivesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.put(queuedJob(1, 1))
		go func() {
			time.Sleep(2*time.Hour + 3*time.Second) // between two streams
			s := ended(s, job.Result{Status: 200})
			f.put(s)
			f.hub.End(context.Background(), idOf(1), events.Terminal(s, nil))
		}()
		var got []string
		for e, err := range clientOf(t, transport(t, serve(t, f.handler()), false)).Watch(t.Context(), idOf(1).String(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.ID+" "+e.Name)
		}
		if want := []string{"1 queued", "2 dispatching", "4 completed"}; !slices.Equal(got, want) {
			t.Errorf("watched %q, want %q", got, want)
		}
	})
}

// The announced end of a stream is reason enough to leave a node that stops.
func TestSE07_StoppingNodeClosesStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put(queuedJob(1, 1))
		rt := client.InProcess(f.handler())
		var streams sync.WaitGroup
		for range 500 {
			resp := open(t, rt, "")
			streams.Go(func() {
				list := listen(t, resp)
				if last := list[len(list)-1].text; last != "id: 1\nevent: closing\nretry: 2000\ndata: {\"reason\":\"shutdown\"}\n" {
					t.Errorf("ends with %v", last)
				}
			})
		}
		time.Sleep(time.Minute)
		start := time.Now()
		f.hub.CloseAll()
		streams.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if f.hub.Listening(idOf(1)) {
			t.Error("somebody still listens")
		}
	})
}

// large is a body that does not fit any buffer.
var large = strings.Repeat("0123456789", 512<<10)

func TestSE06_LargeResultIsOneEvent(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := f.put(queuedJob(1, 1))
			go func() {
				time.Sleep(time.Second)
				s := ended(s, job.Result{Status: 200, Body: []byte(large[:100]), Truncated: true})
				f.put(s)
				if !f.hub.End(context.Background(), idOf(1), events.Terminal(s, []byte(large))) {
					t.Error("not confirmed")
				}
			}()
			for e, err := range clientOf(t, transport(t, serve(t, f.handler()), h2)).Watch(t.Context(), idOf(1).String(), "") {
				if err != nil {
					t.Fatal(err)
				}
				data, _, err := e.Decode()
				if done, ok := data.(events.CompletedData); err != nil || ok && done.Body != large {
					t.Errorf("%s: %d bytes, %v", e.Name, len(done.Body), err)
				}
			}
		})
	}
}

// A reader that is slow but alive gets all of a large result, one that only pretends does not hold
// the stream.
func TestSL01_SlowReaders(t *testing.T) {
	for _, c := range []struct {
		bytes int // per second
		whole bool
	}{{64 << 10, true}, {8 << 10, true}, {1, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.put(ended(queuedJob(1, 1), job.Result{Status: 200, Body: []byte(large)}))
			resp := open(t, transport(t, serve(t, f.handler()), false), "")
			start, got := time.Now(), 0
			buf := make([]byte, c.bytes)
			var err error
			for err == nil && time.Since(start) < time.Hour {
				var n int
				n, err = io.ReadFull(resp.Body, buf)
				got += n
				time.Sleep(time.Second)
			}
			if whole := got > len(large); whole != c.whole {
				t.Errorf("%d bytes/s: got %d bytes, %v", c.bytes, got, err)
			}
			if f.streaming(t) {
				t.Errorf("%d bytes/s: the stream goes on", c.bytes)
			}
		})
	}
}

// The deadline of a write must not outlive it: over HTTP/2 it would end the stream, over HTTP/1.1
// the next answer on the connection.
func TestWriteDeadlineDoesNotOutliveTheStream(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.put(ended(queuedJob(1, 1), job.Result{Status: 200}))
			rt := transport(t, serve(t, f.handler()), h2)
			for range 3 {
				if n := len(listen(t, open(t, rt, ""))); n != 3 {
					t.Errorf("HTTP/2 %v: %d blocks", h2, n)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

func TestHeadOfStreamAnswersAtOnce(t *testing.T) {
	f := newFake()
	f.put(queuedJob(1, 1))
	resp, _ := ask(t, transport(t, serve(t, f.handler()), false), http.MethodHead, "/jobs/"+idOf(1).String()+"/stream", nil)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("answered %d, %q", resp.StatusCode, resp.Header)
	}
}
