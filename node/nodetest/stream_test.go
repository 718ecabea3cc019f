package nodetest_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/nodetest"
)

// A stream tells what happens as it happens and ends with the end; the result needs no webhook then.
func TestST01_NothingAfterTheEndOfAStream(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).Late(time.Second), nodetest.Text("done").Late(time.Second))
		id := s.submit()
		st := s.open(id)
		defer st.close()
		list := st.rest()
		if got := names(list); got != "queued dispatching retrying dispatching completed" {
			t.Errorf("the stream told %q", got)
		}
		for i, id := range []string{"1", "2", "3", "4", "6"} {
			if e := list[i+1]; e.id != id {
				t.Errorf("event with id %s is %+v", id, e)
			}
		}
		tells(t, s.settled(id), "completed 200: 503 200; skipped")
		if n := len(s.receiver.Requests()); n != 0 {
			t.Errorf("%d deliveries although a stream had the result", n)
		}
	})
}

// Whoever resumes from an event that is not kept any more is told so first, also by the next process.
func TestSE01_ResumeFromWhatIsNotKept(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).With("Retry-After", "1"))
		id := s.submit(retries(70))
		s.settled(id)
		for _, process := range []string{"first", "second"} {
			st := s.open(id, "Last-Event-ID", "4")
			list := st.rest()[1:] // the first one is the greeting
			st.close()
			first, last := list[0], list[len(list)-1]
			if first.name != "gap" || !strings.Contains(first.data, `"reason":"trimmed"`) || !strings.Contains(first.data, `"oldest":`+list[1].id) {
				t.Errorf("%s process: first %+v, then %+v", process, first, list[1])
			}
			if last.name != "failed" || last.id != "144" {
				t.Errorf("%s process: last %+v", process, last)
			}
			st = s.open(id, "Last-Event-ID", "139")
			if got := names(st.rest()); got != "dispatching retrying dispatching failed" {
				t.Errorf("%s process: what is kept is told as %q", process, got)
			}
			st.close()
			s.node.Stop()
			s.node.Start()
		}
	}, takes(10, 1))
}

// A stream on which nothing happens is never silent for longer than proxies bear, and when its life is
// over it says so and where to go on.
func TestSE03_IdleStream(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(20 * time.Minute))
		id := s.submit(timeout(0))
		<-time.After(time.Second)

		start, last := time.Now(), time.Now()
		st := s.open(id)
		defer st.close()
		var list []told
		for e, ok := st.next(); ok; e, ok = st.next() {
			if silence := time.Since(last); silence > 15*time.Second {
				t.Errorf("silent for %v before %+v", silence, e)
			}
			last, list = time.Now(), append(list, e)
		}
		if life := time.Since(start); life != 10*time.Minute {
			t.Errorf("the stream lived %v", life)
		}
		end := list[len(list)-1]
		if list[0].retry == "" || names(list) != "queued dispatching closing" || end.retry == "" || end.id != "2" || !strings.Contains(end.data, "life_limit") {
			t.Errorf("told %q, at the end %+v", names(list), end)
		}
		again := s.open(id, "Last-Event-ID", end.id)
		defer again.close()
		<-time.After(10 * time.Minute)
		if got := names(again.rest()); got != "completed" {
			t.Errorf("the resumed stream told %q", got)
		}
	}, func(c *node.Config) { c.StreamMaxSeconds = 600 })
}

// A waiting job is told its place.
func TestPositionIsTold(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("done").Late(4500 * time.Millisecond))
		var ids []string
		for range 3 {
			ids = append(ids, s.submit())
		}
		st := s.open(ids[2])
		defer st.close()
		var places []string
		for _, e := range st.rest() {
			if e.name == "position" {
				_, place, _ := strings.Cut(e.data, `"position":`)
				places = append(places, strings.TrimSuffix(place, "}"))
			}
		}
		if got := strings.Join(places, " "); got != "2 2 1 1" {
			t.Errorf("places %s", got)
		}
	})
}

// A large result is one event, which the client reads whole.
func TestSE06_LargeResult(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		body := strings.Repeat("line of a large result\n", 5<<20/23)
		s.target.Reply(nodetest.Text(body).Late(time.Second))
		id := s.submit()
		last := s.watch(id)
		if got := last.bytes(t); last.name != "completed" || string(got) != body {
			t.Errorf("%s with %d bytes, want %d", last.name, len(got), len(body))
		}
		tells(t, s.settled(id), "completed 200: 200; skipped")
	})
}

// Whoever hangs up in the middle of a stream, after whatever byte, leaves nothing of it behind.
func TestPC08_StreamsThatAreCutOff(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Text("late").Late(time.Minute))
		id := s.submit()
		for i := range 200 {
			st := s.open(id)
			if _, err := io.ReadFull(st.r, make([]byte, i/4)); err != nil { // what there is has some 60 bytes
				t.Fatal(err)
			}
			st.close()
		}
		<-time.After(time.Second)
		if open := s.node.Gauge("aquifer_http_streams"); open != 0 {
			t.Errorf("%v streams are open", open)
		}
		for range 100 {
			st := s.open(id)
			defer st.close()
		}
		if open := s.node.Gauge("aquifer_http_streams"); open != 100 {
			t.Errorf("%v streams are open, want 100", open)
		}
	})
}

// A node with hundreds of streams stops in time: each is told, and each job goes on in the next process,
// where the streams are resumed.
func TestSE07_StopWithManyStreams(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, s *stage) {
		s.target.Reply(nodetest.Status(503).With("Retry-After", "60"))
		ids := make([]string, 10)
		for i := range ids {
			ids[i] = s.submit(user(fmt.Sprint("user-", i)))
		}
		s.Until(time.Minute, "all tried once", func() bool { return len(s.target.Requests()) == len(ids) })
		s.target.Reply(nodetest.Text("done"))

		var streams, watchers sync.WaitGroup
		told := make([]string, 500)
		for i := range told {
			streams.Go(func() {
				st := s.open(ids[i%len(ids)])
				defer st.close()
				told[i] = names(st.rest())
			})
		}
		ends := make([]client.Event, len(ids))
		for i, id := range ids {
			watchers.Go(func() {
				for e, err := range s.node.Client().Watch(t.Context(), id, "") {
					if err != nil {
						t.Errorf("watch: %v", err)
					}
					ends[i] = e
				}
			})
		}
		<-time.After(5 * time.Second)
		if open := s.node.Gauge("aquifer_http_streams"); open != 510 {
			t.Errorf("%v streams are open", open)
		}
		s.node.KeepsWork = true
		if took := s.node.Stop(); took > 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
		streams.Wait()
		for i, got := range told {
			if got != "queued dispatching retrying closing" && got != "queued retrying closing" {
				t.Fatalf("stream %d told %q", i, got)
			}
		}
		s.node.KeepsWork = false
		s.node.Start()
		watchers.Wait()
		for i, id := range ids {
			if !ends[i].Terminal() {
				t.Errorf("job %s was watched up to %+v", id, ends[i])
			}
			j := s.settled(id)
			tells(t, j, "completed 200: 503 200; skipped")
			if j.Webhook.State != job.WebhookSkipped {
				t.Errorf("webhook %+v", j.Webhook)
			}
		}
	}, takes(100, 10))
}

// A client that does not read does not count as one that has the result, and holds nothing up.
func TestWH08_FrozenClient(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		body := strings.Repeat("x", 1<<20)
		s.target.Reply(nodetest.Text(body).Late(time.Second))
		id := s.submit()
		frozen := s.open(id)
		defer frozen.close()
		start := time.Now()

		j := s.settled(id)
		tells(t, j, "completed 200: 200; delivered after 1")
		if !strings.HasPrefix(body, j.Result.Body) || j.Result.Body == "" {
			t.Errorf("stored %d bytes", len(j.Result.Body))
		}
		d := s.receiver.Of(id)
		if len(d) != 1 || d[0].Message.Body != body {
			t.Fatalf("%d deliveries", len(d))
		}
		if waited := d[0].At.Sub(start); waited < 3*time.Second || waited > 3100*time.Millisecond {
			t.Errorf("delivered after %v, want the answer's second and the confirmation's two", waited)
		}
		// The slot was free meanwhile, and the stream is given up soon.
		s.Until(time.Minute, "stream given up", func() bool { return s.node.Gauge("aquifer_http_streams") == 0 })
	})
}
