package api_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
)

// finish ends job 1 for its listeners and reports whether one of them confirmed, and when.
func finish(f *fake, s job.Snapshot, payload string) (confirmed bool, took time.Duration) {
	start := time.Now()
	s = f.put(ended(s, job.Result{Status: 200, Body: []byte(payload)}))
	return f.hub.End(context.Background(), idOf(1), events.Terminal(s, nil)), time.Since(start)
}

func TestWH08_FrozenClientConfirmsNothing(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s := f.put(queuedJob(1, 1))
			resp := open(t, transport(t, serve(t, f.handler()), h2), "")
			if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // and then it freezes
			if confirmed, took := finish(f, s, large); confirmed || took != 2*time.Second {
				t.Errorf("confirmed %v after %v, want no after 2 s", confirmed, took)
			}
			time.Sleep(7 * time.Second)
			if f.hub.Listening(idOf(1)) || !f.streaming(t) { // the end has taken the topic; the stream still hangs
				t.Error("the stream is given up before its time")
			}
			time.Sleep(2 * time.Second)
			if f.streaming(t) {
				t.Error("the stream of a frozen client goes on")
			}
		})
	}
}

// streaming reports whether the node counts an open stream.
func (f *fake) streaming(t *testing.T) bool {
	t.Helper()
	return metrictest.Value(t, f.registry, "aquifer_http_streams") > 0
}

func TestWH08_ClientThatReadsConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.put(queuedJob(1, 1))
		resp := open(t, transport(t, serve(t, f.handler()), false), "")
		var reader sync.WaitGroup
		reader.Go(func() { listen(t, resp) })
		synctest.Wait()
		if confirmed, took := finish(f, s, "result"); !confirmed || took != 0 {
			t.Errorf("confirmed %v after %v, want yes at once", confirmed, took)
		}
		reader.Wait()
		if f.streaming(t) {
			t.Error("the stream goes on")
		}
	})
}

func TestWH08_ClientThatLeftConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.put(queuedJob(1, 1))
		resp := open(t, transport(t, serve(t, f.handler()), false), "")
		synctest.Wait()
		_ = resp.Body.Close()
		synctest.Wait()
		if confirmed, took := finish(f, s, "result"); confirmed || took != 0 {
			t.Errorf("confirmed %v after %v, want no at once", confirmed, took)
		}
	})
}

// The stored result may be cut. Who comes late gets that, while the delivery may have all of it.
func TestWH08_LateClientConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.put(ended(queuedJob(1, 1), job.Result{Status: 200, Body: []byte("begin"), Truncated: true}))
		resp := open(t, transport(t, serve(t, f.handler()), false), "")
		synctest.Wait() // the stream waits for its reader, and has subscribed
		done := make(chan bool)
		go func() { done <- f.hub.End(context.Background(), idOf(1), events.Terminal(s, []byte("begin and end"))) }()
		synctest.Wait()
		listen(t, resp)
		if <-done {
			t.Error("confirmed")
		}
	})
}
