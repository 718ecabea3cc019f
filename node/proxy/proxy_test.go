package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/dispatch"
	"github.com/aquifer-fleet/aquifer/node/events"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
	"github.com/aquifer-fleet/aquifer/node/proxy"
	"github.com/aquifer-fleet/aquifer/node/queue"
	"github.com/aquifer-fleet/aquifer/node/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// large is an answer that needs room.
var large = strings.Repeat("x", 65<<10)

var testID = job.ID{0: 1, 15: 7}

// rig is a proxy between an intake, a worker and a hub. It lives in a bubble.
type rig struct {
	*proxy.Proxy
	t        *testing.T
	hub      *events.Hub
	registry *prometheus.Registry
	room     *dispatch.Room

	// receipt and err are what the intake answers; direct lets a call have a turn past the queue.
	receipt intake.Receipt
	err     error
	direct  bool
	stored  bool // also what is refused
	seen    intake.Submission
	voided  []job.ID

	// answer is that of the worker, after it took so long; end is told whether somebody confirmed the end, nil: there is none.
	answer worker.Answer
	took   time.Duration
	end    func(confirmed bool)
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, registry: prometheus.NewRegistry(), receipt: intake.Receipt{ID: testID, Status: job.Queued}, direct: true, took: time.Second,
	}
	r.hub = events.New(events.Config{Wait: 2 * time.Second, Registerer: r.registry})
	r.room = dispatch.NewRoom(1<<20, r.registry)
	r.Proxy = proxy.New(proxy.Config{
		Intake: r, Worker: r, Hub: r.hub, Attempts: t.Context(), Room: r.room, RelayBytes: int64(len(large)), Registerer: r.registry,
		Load: func(job.Lane) intake.Load { return intake.Load{QueueBacklog: 5} },
	})
	return r
}

// Submit is proxy.Intake.
func (r *rig) Submit(_ context.Context, s intake.Submission) (intake.Receipt, error) {
	r.seen = s
	got := r.receipt
	if r.stored {
		s.Stored(testID)
	}
	if r.err != nil || got.Duplicate {
		return got, r.err
	}
	s.Stored(testID)
	if r.direct && s.Direct != nil {
		got.Direct = true
		j := &job.Job{ID: testID, Request: *s.Request, Deadline: time.Now().Add(time.Hour).UnixMilli(), DirectOnly: s.DirectOnly}
		go s.Direct.Run(r.t.Context(), &queue.Turn{Entry: job.Entry{ID: testID}, Held: &job.Snapshot{Job: j}})
	}
	return got, nil
}

// Void is proxy.Intake.
func (r *rig) Void(_ context.Context, j *job.Job) { r.voided = append(r.voided, j.ID) }

// Direct is proxy.Worker.
func (r *rig) Direct(ctx context.Context, t *queue.Turn) (worker.Answer, queue.Verdict) {
	time.Sleep(r.took)
	if err := dispatch.LeaseOf(ctx).Take(ctx, int64(len(r.answer.Body))); err != nil {
		r.t.Error(err)
	}
	if r.end != nil {
		last := events.Event{Seq: 4, Name: events.NameCompleted}
		go func() { r.end(r.hub.End(r.t.Context(), t.Entry.ID, last)) }()
	}
	return r.answer, queue.Ended
}

// try makes a call for a caller who stays for a minute.
func (r *rig) try(edit ...func(*intake.Submission)) (proxy.Result, error) {
	return r.tryFor(time.Minute, edit...)
}

func (r *rig) tryFor(patience time.Duration, edit ...func(*intake.Submission)) (proxy.Result, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	s := intake.Submission{Request: &job.Request{UserID: "u", KeyName: "k", URL: "http://target.test/", Method: "GET"}}
	for _, e := range edit {
		e(&s)
	}
	return r.Try(ctx, s)
}

// clean checks that nothing is held any more.
func (r *rig) clean() {
	r.t.Helper()
	synctest.Wait()
	for _, gauge := range []string{"aquifer_event_subscriptions", "aquifer_large_bodies_bytes", "aquifer_proxy_relay_bytes"} {
		if n := metrictest.Value(r.t, r.registry, gauge); n != 0 {
			r.t.Errorf("%s is %v", gauge, n)
		}
	}
}

func outcome(status int, header http.Header, body string) dispatch.Outcome {
	return dispatch.Outcome{Status: status, Header: header, Body: []byte(body)}
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

// What the intake says about a call that is not to be tried is what the caller is told.
func TestCallsThatAreNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.err, r.receipt.Load = fault.New(fault.Overloaded, "full"), intake.Load{QueueBacklog: 3}
		if got, err := r.try(); !errors.Is(err, r.err) || got.Load.QueueBacklog != 3 || got.Live != nil {
			t.Errorf("a refusal: %+v, %v", got, err)
		}
		r.err = intake.ErrNotDirect
		var notDirect *proxy.NotDirectError
		if _, err := r.try(); !errors.As(err, &notDirect) || notDirect.Reason != proxy.Degraded {
			t.Errorf("no turn past the queue: %v", err)
		}
		r.stored = true // and then the node stopped
		if _, err := r.try(func(s *intake.Submission) { s.DirectOnly = true }); !errors.As(err, &notDirect) || r.hub.Listening(testID) {
			t.Errorf("no turn after all: %v", err)
		}
		r.err, r.receipt.Duplicate = nil, true
		if got, err := r.try(); err != nil || !got.Duplicate || got.Live != nil || got.Reason != "" {
			t.Errorf("a known key: %+v, %v", got, err)
		}
		r.clean()
	})
}

// A call that has to wait, or is too late, is not tried; the stream hears of its job from the start.
func TestCallsThatAreQueued(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.direct = false
		got, err := r.try()
		if err != nil || got.Reason != proxy.Degraded || got.Live == nil || got.Relay != nil || !r.hub.Listening(testID) {
			t.Errorf("%+v, %v", got, err)
		}
		got.Live.Close()
		r.direct = true
		got, err = r.try(func(s *intake.Submission) { s.Request.ExecuteBefore = time.Now().UnixMilli() })
		if err != nil || got.Reason != proxy.DeadlineExceeded || r.seen.Direct != nil {
			t.Errorf("too late: %+v, %v", got, err)
		}
		got.Live.Close()
		r.clean()
	})
}

// What came of an attempt decides what the caller is told.
func TestWhatAnAttemptMeans(t *testing.T) {
	for name, c := range map[string]struct {
		answer worker.Answer
		reason proxy.Reason
		status int
	}{
		"overloaded":         {worker.Answer{Outcome: outcome(503, nil, ""), Tried: true, Recorded: true}, proxy.Overloaded, 503},
		"unreachable":        {worker.Answer{Outcome: dispatch.Outcome{Class: job.Timeout}, Tried: true, Recorded: true}, proxy.Unreachable, 0},
		"cut off":            {worker.Answer{Outcome: dispatch.Outcome{Class: job.ResponseTruncated, Status: 200}, Tried: true, Recorded: true}, proxy.Unreachable, 0},
		"not begun":          {worker.Answer{}, proxy.Degraded, 0},
		"unrecorded":         {worker.Answer{Outcome: outcome(404, nil, "x"), Tried: true}, proxy.Degraded, 0},
		"failed, unrecorded": {worker.Answer{Outcome: dispatch.Outcome{Class: job.Timeout}, Tried: true}, proxy.Degraded, 0},
		"too large":          {worker.Answer{Outcome: dispatch.Outcome{Status: 200, Truncated: true}, Tried: true, Recorded: true, Completed: true}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = c.answer
				got, err := r.try()
				if err != nil || got.Relay != nil || got.Reason != c.reason || got.UpstreamStatus != c.status || (got.Load.QueueBacklog == 5) != (c.reason != "") {
					t.Errorf("%+v, %v", got, err)
				}
				got.Live.Close()
				if c.reason != "" {
					var notDirect *proxy.NotDirectError
					_, err := r.try(func(s *intake.Submission) { s.DirectOnly = true })
					if !errors.As(err, &notDirect) || notDirect.Reason != c.reason || notDirect.UpstreamStatus != c.status || !reflect.DeepEqual(r.voided, []job.ID{testID}) {
						t.Errorf("alone: %v, given back %v", err, r.voided)
					}
				}
				r.clean()
			})
		})
	}
}

// The header goes on without what belongs to the connection. What is held for the answer is held until it is delivered,
// apart from where others are read, and the delivery is saved.
func TestARelay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = worker.Answer{Tried: true, Recorded: true, Completed: true, Outcome: outcome(418, http.Header{
			"X-Own": {"a", "b"}, "Connection": {"X-Hop, close"}, "X-Hop": {"1"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"3"},
			"Proxy-Authenticate": {"x"},
		}, large)}
		confirmed := make(chan bool, 1)
		r.end = func(ok bool) { confirmed <- ok }
		got, err := r.try()
		if err != nil || got.Relay == nil || got.Relay.Status != 418 || string(got.Relay.Body) != large || !reflect.DeepEqual(got.Relay.Header, http.Header{"X-Own": {"a", "b"}}) {
			t.Fatalf("%+v, %v", got, err)
		}
		time.Sleep(time.Hour) // he reads slowly
		read, relayed := metrictest.Value(t, r.registry, "aquifer_large_bodies_bytes"), metrictest.Value(t, r.registry, "aquifer_proxy_relay_bytes")
		if read != 0 || relayed != float64(len(large)) {
			t.Errorf("%v and %v bytes are held", read, relayed)
		}
		got.Relay.Delivered(t.Context())
		if !<-confirmed {
			t.Error("the end was not confirmed")
		}
		got.Relay.Close()
		r.clean()
	})
}

// An answer for which there is no room beside those that are being read is told of; small ones pass it, and one that is
// larger than the whole room gets all of it.
func TestRelaysShareARoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		answer := func(body string) proxy.Result {
			r.answer = worker.Answer{Tried: true, Recorded: true, Completed: true, Outcome: outcome(200, nil, body)}
			got, err := r.try()
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		first := answer(large + large)
		second, small := answer(large), answer("abc")
		if first.Relay == nil || second.Relay != nil || second.Live == nil || second.Reason != "" || small.Relay == nil {
			t.Errorf("%+v, %+v, %+v", first, second, small)
		}
		second.Live.Close()
		small.Relay.Close()
		first.Relay.Close()
		if second = answer(large); second.Relay == nil {
			t.Fatalf("afterwards: %+v", second)
		}
		second.Relay.Close()
		r.clean()
	})
}

// An answer that does not reach the caller is left to the webhook, whenever he leaves.
func TestCallersWhoLeave(t *testing.T) {
	for name, c := range map[string]struct {
		patience time.Duration
		relayed  bool
	}{"during the attempt": {500 * time.Millisecond, false}, "at its end": {time.Second, false}, "during the answer": {time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = worker.Answer{Tried: true, Recorded: true, Completed: true, Outcome: outcome(200, nil, "abc")}
				confirmed := make(chan bool, 1)
				r.end = func(ok bool) { confirmed <- ok }
				got, err := r.tryFor(c.patience)
				switch {
				case got.Relay != nil:
					got.Relay.Close()
				case c.relayed, !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%+v, %v", got, err)
				}
				if <-confirmed {
					t.Error("confirmed by one who has left")
				}
				r.clean()
			})
		})
	}
}

// Attempts and fallbacks are counted, each kind from the start.
func TestCounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, a := range []worker.Answer{
			{Tried: true, Recorded: true, Completed: true, Outcome: outcome(200, nil, "")}, {Tried: true, Recorded: true, Outcome: outcome(429, nil, "")},
			{Tried: true, Recorded: true, Outcome: dispatch.Outcome{Class: job.DNS}}, {},
		} {
			r.answer = a
			if got, err := r.try(); err != nil {
				t.Error(err)
			} else if got.Relay != nil {
				got.Relay.Close()
			} else {
				got.Live.Close()
			}
		}
		for _, outcome := range []string{"completed", "overloaded", "unreachable", "untried"} {
			if n := metrictest.Value(t, r.registry, "aquifer_proxy_attempts_total", outcome); n != 1 {
				t.Errorf("%v attempts %s", n, outcome)
			}
		}
		for _, reason := range proxy.Reasons() {
			want := 1.0
			if reason == proxy.DeadlineExceeded {
				want = 0
			}
			if n := metrictest.Value(t, r.registry, "aquifer_proxy_fallbacks_total", string(reason)); n != want {
				t.Errorf("%v fallbacks %s", n, reason)
			}
		}
	})
}
