package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/proxy"
)

// tries is a Proxy that answers as told.
type tries func(ctx context.Context, s intake.Submission) (proxy.Result, error)

func (f tries) Try(ctx context.Context, s intake.Submission) (proxy.Result, error) { return f(ctx, s) }

// call calls the face of a fake whose proxy answers like this.
func call(t *testing.T, f *fake, body string, try tries, edit ...func(*api.Config)) (*http.Response, string) {
	t.Helper()
	f.registry = prometheus.NewRegistry() // one for each face
	h := f.handler(append(edit, func(c *api.Config) { c.Proxy = try })...)
	return ask(t, client.InProcess(h), http.MethodPost, "/proxy", strings.NewReader(body))
}

func TestCallsThatAreRefused(t *testing.T) {
	full := fault.New(fault.Overloaded, "the target is full")
	full.Limit = &fault.Limit{Reason: "upstream_queue", Limit: 1, Current: 2}
	for name, c := range map[string]struct {
		body     string
		err      error
		draining bool
		status   int
		text     string
	}{
		"not JSON":       {"{", nil, true, 400, "invalid json"},
		"field":          {`{"user_id":"u"}`, nil, false, 400, "idempotent_key is required"},
		"pool":           {with("pool_id", `"p"`), nil, false, 400, "url and pool_id"},
		"wrong type":     {with("direct_only", `1`), nil, false, 400, "direct_only must be true or false, got number"},
		"draining":       {valid, nil, true, 503, "draining"},
		"admission":      {valid, full, false, 429, `"limit_reason":"upstream_queue","limit":1,"current":2`},
		"not at once":    {valid, &proxy.NotDirectError{Reason: proxy.Overloaded, UpstreamStatus: 503}, false, 503, `"reason":"upstream_overloaded","upstream_status":503`},
		"a fault of us":  {valid, errors.New("secret"), false, 500, `{"error":"internal error"}`},
		"too large":      {valid + strings.Repeat(" ", 2<<20), nil, false, 413, "limit_bytes"},
		"too late to go": {valid, fault.New(fault.Unavailable, "the disk is full"), false, 503, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.draining = c.draining
			resp, body := call(t, f, c.body, func(context.Context, intake.Submission) (proxy.Result, error) {
				if c.err == nil {
					t.Error("it was tried")
				}
				return proxy.Result{Receipt: intake.Receipt{Load: intake.Load{QueueBacklog: 2}}}, c.err
			})
			if resp.StatusCode != c.status || !strings.Contains(body, c.text) {
				t.Errorf("answered %d %s", resp.StatusCode, body)
			}
			if (resp.StatusCode == 503 || resp.StatusCode == 429) && resp.Header.Get("Retry-After") == "" {
				t.Error("it does not say when to come again")
			}
		})
	}
}

// What only nodes say to each other does not count from others, and never of a job.
func TestDirectOnlyIsInternal(t *testing.T) {
	for name, c := range map[string]struct {
		internal func(*http.Request) bool
		want     bool
	}{
		"nobody can tell": {nil, true}, "a node": {func(*http.Request) bool { return true }, true},
		"a stranger": {func(*http.Request) bool { return false }, false},
	} {
		var got []bool
		f := newFake()
		call(t, f, with("direct_only", "true"), func(_ context.Context, s intake.Submission) (proxy.Result, error) {
			got = append(got, s.DirectOnly)
			return proxy.Result{}, fault.New(fault.Conflict, "enough")
		}, func(cfg *api.Config) { cfg.Internal = c.internal })
		f.submit = func(_ context.Context, s intake.Submission) (intake.Receipt, error) {
			got = append(got, s.DirectOnly)
			return intake.Receipt{}, nil
		}
		f.registry = prometheus.NewRegistry()
		ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(with("direct_only", "true")))
		if len(got) != 2 || got[0] != c.want || got[1] {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A known key is answered with the result, or a stream; of a job that is elsewhere there is what is known.
func TestCallsWithAKnownKey(t *testing.T) {
	known := func(context.Context, intake.Submission) (proxy.Result, error) {
		return proxy.Result{Receipt: intake.Receipt{ID: idOf(1), Status: job.Completed, Duplicate: true, ResultKey: "where"}}, nil
	}
	f := newFake()
	resp, body := call(t, f, valid, known)
	if want := `{"job_id":"` + idOf(1).String() + `","status":"completed","duplicate":true,"result_key":"where"}` + "\n"; resp.StatusCode != 200 || body != want {
		t.Errorf("elsewhere: %d %s", resp.StatusCode, body)
	}
	f.put(ended(queuedJob(1, 1), job.Result{Status: 201, Body: []byte("\xff"), ContentType: "x/y"}))
	if _, body := call(t, f, valid, known); !strings.Contains(body, `"result":{"response_status":201,"content_type":"x/y","body":"/w==","body_encoding":"base64","body_truncated":false}`) {
		t.Errorf("ended: %s", body)
	}
	f.err = errors.New("disk on fire")
	if resp, _ := call(t, f, valid, known); resp.StatusCode != 500 {
		t.Errorf("unreadable: %d", resp.StatusCode)
	}
}

// A call that has joined the queue is told why, and then all that happens to its job.
func TestACallThatFellBack(t *testing.T) {
	f := newFake()
	f.put(ended(queuedJob(1, 1), job.Result{Status: 200, Body: []byte("done")}))
	resp, body := call(t, f, valid, func(context.Context, intake.Submission) (proxy.Result, error) {
		return proxy.Result{
			Receipt: intake.Receipt{ID: idOf(1), Load: intake.Load{ActiveQueues: 2, UpstreamBacklog: 9, QueueBacklog: 4, Pressure: 0.25}},
			Reason:  proxy.Overloaded, UpstreamStatus: 429, Live: f.hub.Subscribe(idOf(1)),
		}, nil
	})
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Aquifer-Admission-Pressure") != "0.250" {
		t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
	}
	first := "retry: 2000\n\nid: 0\nevent: proxy_fallback\ndata: {\"job_id\":\"" + idOf(1).String() + "\",\"reason\":\"upstream_overloaded\",\"upstream_status\":429}\n\nid: 1\nevent: queued\n"
	if !strings.HasPrefix(body, first) || !strings.Contains(body, "event: completed\n") {
		t.Errorf("told %s", body)
	}
	if f.hub.Listening(idOf(1)) {
		t.Error("the stream is still open")
	}
	f.err = errors.New("disk on fire")
	resp, _ = call(t, f, valid, func(context.Context, intake.Submission) (proxy.Result, error) {
		return proxy.Result{Receipt: intake.Receipt{ID: idOf(1)}, Live: f.hub.Subscribe(idOf(1))}, nil
	})
	if resp.StatusCode != 500 || f.hub.Listening(idOf(1)) {
		t.Errorf("answered %d", resp.StatusCode)
	}
}
