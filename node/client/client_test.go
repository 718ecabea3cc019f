package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestNewRefusesBadURLs(t *testing.T) {
	for _, base := range []string{"", "node:8080", "/x", "ftp://node", "http://", "http://node/?a=b", "http://node/#a", "http://no de"} {
		if _, err := client.New(base, nil); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

// sent is a request as it went over the wire.
type sent struct {
	line, body string
	header     http.Header
}

// record answers every request with answer and notes what it was.
func record(into *sent, status int, answer string, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*into = sent{r.Method + " " + r.RequestURI, string(body), r.Header}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
}

func TestSubmit(t *testing.T) {
	var got sent
	rt := client.InProcess(record(&got, 201, `{"job_id":"7","status":"queued","news":1}`,
		"X-Aqueduct-Durability", "sync", "X-Aqueduct-Active-Queues", "2", "X-Aquifer-Upstream-Backlog", "3", "X-Aqueduct-Queue-Backlog", "4", "X-Aqueduct-Admission-Pressure", "0.250"))
	c, err := client.New("http://node/prefix/", rt)
	if err != nil {
		t.Fatal(err)
	}
	retries, timeout := 0, int64(0)
	r, err := c.Submit(t.Context(), client.Submission{
		UserID: "u", IdempotentKey: "k", URL: "http://t/", Method: "POST", Headers: map[string]string{"A": "b"}, Body: []byte(`<"x">`),
		WebhookURL: "http://w/", ExecuteBefore: 5, Scope: "shared", MaxRetries: &retries, TimeoutMS: &timeout, WithDurability: "sync",
	})
	want := client.Receipt{JobID: "7", Status: job.Queued, Durability: "sync", Load: client.Load{ActiveQueues: 2, UpstreamBacklog: 3, QueueBacklog: 4, Pressure: .25}}
	if err != nil || r != want {
		t.Errorf("got %+v, %v; want %+v", r, err, want)
	}
	const body = `{"user_id":"u","idempotent_key":"k","url":"http://t/","method":"POST","headers":{"A":"b"},"webhook_url":"http://w/",` +
		`"execute_before":5,"idempotency_scope":"shared","max_retries":0,"timeout_ms":0,"body":"<\"x\">"}`
	if got.line != "POST /prefix/jobs" || got.body != body {
		t.Errorf("sent %s\n%s, want\n%s", got.line, got.body, body)
	}
	if got.header.Get("X-Aqueduct-Durability") != "sync" || got.header.Get("Content-Type") != "application/json" || got.header.Get("Idempotency-Key") != "" {
		t.Errorf("sent %v", got.header)
	}
}

func TestSubmitLeavesOutWhatIsNotSet(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"job_id":"7","status":"failed","duplicate":true,"payload_mismatch":true}`)))
	r, err := c.Submit(t.Context(), client.Submission{Body: []byte{0xFF, 0x00}})
	if want := (client.Receipt{JobID: "7", Status: job.Failed, Duplicate: true, PayloadMismatch: true}); err != nil || r != want {
		t.Errorf("got %+v, %v", r, err)
	}
	if got.body != `{"body_base64":"/wA="}` {
		t.Errorf("sent %s", got.body)
	}
}

func TestRedrive(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 201, `{"job_id":"8","status":"queued","redrive_of":"7"}`)))
	r, err := c.Redrive(t.Context(), "7/..")
	if err != nil || r.RedriveOf != "7" || r.JobID != "8" || got.line != "POST /jobs/7%2F../redrive" {
		t.Errorf("got %+v, %v for %s", r, err, got.line)
	}
	if err := c.RedriveWebhook(t.Context(), "7"); err != nil || got.line != "POST /jobs/7/webhook/redrive" {
		t.Errorf("got %v for %s", err, got.line)
	}
}

func TestHealthAndReady(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"status":"draining","admission":{"enabled":true,"db_bytes":5},"queues":{"backlog":7},"news":{}}`)))
	h, err := c.Health(t.Context())
	if err != nil || h.Status != "draining" || !h.Admission.Enabled || h.Admission.DBBytes != 5 || h.Queues.Backlog != 7 {
		t.Errorf("got %+v, %v", h, err)
	}
	if err := c.Ready(t.Context()); err != nil || got.line != "GET /ready" {
		t.Errorf("got %v for %s", err, got.line)
	}
}

func TestErrors(t *testing.T) {
	limit := &fault.Limit{Reason: "db_size", Limit: 5, Current: 6}
	for _, c := range []struct {
		status  int
		body    string
		headers []string
		want    fault.Error
	}{
		{400, `{"error":"user_id is required"}`, nil, fault.Error{Kind: fault.Invalid, Detail: "user_id is required"}},
		{404, `{"error":"job not found"}`, nil, fault.Error{Kind: fault.NotFound, Detail: "job not found"}},
		{409, `{"error":"x"}`, nil, fault.Error{Kind: fault.Conflict, Detail: "x"}},
		{422, `{"error":"x"}`, nil, fault.Error{Kind: fault.Mismatch, Detail: "x"}},
		{413, `{"error":"x","limit_bytes":9}`, nil, fault.Error{Kind: fault.TooLarge, Detail: "x", Limit: &fault.Limit{Reason: "body_bytes", Limit: 9}}},
		{429, `{"error":"x","limit_reason":"db_size","limit":5,"current":6}`, []string{"Retry-After", "20"}, fault.Error{Kind: fault.Overloaded, Detail: "x", Limit: limit, RetryAfter: 20 * time.Second}},
		{503, `{"error":"x"}`, []string{"X-Aquifer-Node-State", "draining", "Retry-After", "5"}, fault.Error{Kind: fault.Draining, Detail: "x", RetryAfter: 5 * time.Second}},
		{503, `{"error":"x"}`, []string{"Retry-After", "-5"}, fault.Error{Kind: fault.Unavailable, Detail: "x"}},
		{502, `<html>bad gateway</html>`, nil, fault.Error{Kind: fault.Unavailable, Detail: "Bad Gateway"}},
		{504, ``, []string{"Retry-After", "99999999999999999999"}, fault.Error{Kind: fault.Unavailable, Detail: "Gateway Timeout"}},
		{500, `{"error":"internal error"}`, nil, fault.Error{Kind: fault.Internal, Detail: "internal error"}},
		{401, `{}`, nil, fault.Error{Kind: fault.Invalid, Detail: "Unauthorized"}},
		{302, ``, nil, fault.Error{Kind: fault.Internal, Detail: "Found"}},
	} {
		var got sent
		_, err := newClient(t, client.InProcess(record(&got, c.status, c.body, c.headers...))).Get(t.Context(), "7")
		var e *client.Error
		var f *fault.Error
		if !errors.As(err, &e) || !errors.As(err, &f) {
			t.Errorf("%d %s: got %v", c.status, c.body, err)
			continue
		}
		same := f.Kind == c.want.Kind && f.Detail == c.want.Detail && f.RetryAfter == c.want.RetryAfter && (f.Limit == nil) == (c.want.Limit == nil)
		if e.Status != c.status || !same || f.Limit != nil && *f.Limit != *c.want.Limit {
			t.Errorf("%d %s: got %d %+v, want %+v", c.status, c.body, e.Status, *f, c.want)
		}
		if !strings.HasPrefix(err.Error(), "GET /jobs/7: status ") {
			t.Errorf("error reads %q", err)
		}
	}
}

func TestRetryAfterDate(t *testing.T) {
	var got sent
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	_, err := newClient(t, client.InProcess(record(&got, 429, `{}`, "Retry-After", at))).Get(t.Context(), "7")
	var f *fault.Error
	if !errors.As(err, &f) || f.RetryAfter <= 50*time.Minute || f.RetryAfter > time.Hour {
		t.Errorf("got %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"job_id":"`+strings.Repeat("x", 100)+`"}`)))
	c.MaxBytes = 100
	if _, err := c.Get(t.Context(), "7"); err == nil || !strings.Contains(err.Error(), "larger than 100 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestAnswersThatAreNoJSON(t *testing.T) {
	var got sent
	if _, err := newClient(t, client.InProcess(record(&got, 200, `<html>`))).Get(t.Context(), "7"); err == nil || !strings.HasPrefix(err.Error(), "GET /jobs/7: answer: ") {
		t.Errorf("got %v", err)
	}
}

func TestListStopsAtAnError(t *testing.T) {
	n := 0
	rt := transport(func(*http.Request) (*http.Response, error) {
		if n++; n > 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"jobs":[{"job_id":"1"},{"job_id":"2"}],"next_cursor":"c"}`))}, nil
	})
	var ids []string
	var last error
	for j, err := range newClient(t, rt).List(t.Context(), client.Query{}) {
		ids, last = append(ids, j.JobID), err
	}
	if strings.Join(ids, ",") != "1,2," || !errors.Is(last, io.ErrUnexpectedEOF) || n != 2 {
		t.Errorf("listed %q, %v with %d requests", ids, last, n)
	}
}

func TestListAsks(t *testing.T) {
	var got sent
	c := newClient(t, client.InProcess(record(&got, 200, `{"jobs":[]}`)))
	for range c.List(t.Context(), client.Query{UserID: "a&b", Status: job.Failed, Target: "t:1", Webhook: job.WebhookPending, PageSize: 7}) {
		t.Error("there is a job")
	}
	if got.line != "GET /jobs?limit=7&status=failed&target=t%3A1&user_id=a%26b&webhook=pending" {
		t.Errorf("asked %s", got.line)
	}
}

func TestResultBytes(t *testing.T) {
	for _, c := range []struct {
		r    client.Result
		want string
		ok   bool
	}{
		{client.Result{Body: "text"}, "text", true},
		{client.Result{Body: "/wA=", BodyEncoding: "base64"}, "\xff\x00", true},
		{client.Result{Body: "!", BodyEncoding: "base64"}, "", false},
		{client.Result{Body: "x", BodyEncoding: "zip"}, "", false},
	} {
		if got, err := c.r.Bytes(); string(got) != c.want || (err == nil) != c.ok {
			t.Errorf("%+v: %q, %v", c.r, got, err)
		}
	}
}

func TestCanceledRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := newClient(t, client.InProcess(h)).Get(ctx, "7"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
