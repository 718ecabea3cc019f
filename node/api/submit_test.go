package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
	"github.com/aquifer-fleet/aquifer/node/intake"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/store"
)

// without is the valid job without one field, or with another value for it.
func with(field, value string) string {
	s := strings.Replace(valid, "{", "{\"_\":0,", 1)
	if at := strings.Index(s, `"`+field+`":`); at >= 0 {
		rest := s[at:]
		end := strings.IndexAny(rest[len(field)+3:], ",}") + len(field) + 3
		s = s[:at] + `"_` + field + `":0` + rest[end:]
	}
	if value != "" {
		s = strings.Replace(s, "{", `{"`+field+`":`+value+",", 1)
	}
	return s
}

func TestSubmitRefusesBadRequests(t *testing.T) {
	for _, c := range []struct{ name, body, text string }{
		{"empty body", ``, "invalid json"},
		{"not JSON", `{"user_id":`, "invalid json"},
		{"two values", valid + `{}`, "invalid json"},
		{"trailing text", valid + ` x`, "invalid json"},
		{"no object", `[1]`, "invalid json: the body must be an object, got ["},
		{"name twice", `{"user_id":"a","user_id":"b"}`, "duplicate name at /user_id"},
		{"bad UTF-8", "{\"user_id\":\"\xff\"}", "invalid json"},
		{"wrong type", with("user_id", `5`), "user_id must be a string, got number"},
		{"number too large", with("max_retries", `99999999999999999999`), "max_retries must be an integer of 64 bits"},
		{"fraction", with("max_retries", `1.5`), "max_retries must be an integer of 64 bits, got "},
		{"headers no object", with("headers", `["a"]`), "headers must be an object of strings"},
		{"execute_before negative", with("execute_before", `-1`), "execute_before must not be negative, got -1"},
		{"no user", with("user_id", ""), "user_id is required"},
		{"null user", with("user_id", "null"), "user_id is required"},
		{"NUL in user", with("user_id", `"a\u0000b"`), "user_id must not contain a NUL character"},
		{"no key", with("idempotent_key", ""), "idempotent_key is required"},
		{"retries below", with("max_retries", `-2`), "max_retries must be between -1 and 100, got -2"},
		{"retries above", with("max_retries", `101`), "max_retries must be between -1 and 100, got 101"},
		{"scope", with("idempotency_scope", `"all"`), `idempotency_scope must be "user" or "shared", got "all"`},
		{"shared scope", with("idempotency_scope", `"shared"`), `idempotency_scope "shared" is not enabled on this node`},
		{"no url", with("url", ""), "url is required"},
		{"url and pool", with("pool_id", `"p"`), "url and pool_id exclude each other"},
		{"no method", with("method", ""), "method is required"},
		{"no webhook", with("webhook_url", ""), "webhook_url is required"},
		{"null webhook", with("webhook_url", "null"), "webhook_url is required"},
		{"url relative", with("url", `"/x"`), "url must be an absolute http or https URL"},
		{"url with credentials", with("url", `"http://u:p@h/"`), "url must not carry credentials"},
		{"both bodies", strings.Replace(valid, "{", `{"body":"a","body_base64":"YQ==",`, 1), "body and body_base64 exclude each other"},
		{"bad base64", with("body_base64", `"a"`), "body_base64 must be standard base64"},
		{"timeout", with("timeout_ms", `-1`), "timeout_ms must be between 0 and 86400000, got -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) {
				t.Error("the intake was asked")
				return intake.Receipt{}, nil
			}
			resp, body := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(c.body))
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("status %d", resp.StatusCode)
			}
			if !strings.Contains(unescaped(body), c.text) {
				t.Errorf("answered %s, want %q in it", body, c.text)
			}
		})
	}
}

// unescaped undoes what JSON does to quotes.
func unescaped(s string) string { return strings.ReplaceAll(s, `\"`, `"`) }

func TestSubmitRefusesURLsOfOtherDomains(t *testing.T) {
	f := newFake()
	h := f.handler(func(c *api.Config) { c.Rules = job.Rules{URLDomains: []string{"api.example"}} })
	resp, body := ask(t, client.InProcess(h), http.MethodPost, "/jobs", strings.NewReader(valid))
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "must have a host that this node allows") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

// Of two things that are wrong, the one that is looked at first is answered.
func TestSubmitOrderOfChecks(t *testing.T) {
	for _, c := range []struct {
		name     string
		body     string
		draining bool
		headers  []string
		status   int
		text     string
	}{
		{"size before JSON", strings.Repeat("x", 101), true, nil, 413, "larger than 100 bytes"},
		{"JSON before header", "{", true, []string{"X-Aqueduct-Max-Retries", "x"}, 400, "invalid json"},
		{"header before draining", "{}", true, []string{"X-Aqueduct-Max-Retries", "x"}, 400, "X-Aqueduct-Max-Retries must be an integer"},
		{"durability before draining", "{}", true, []string{"X-Aqueduct-Durability", "x"}, 400, "X-Aqueduct-Durability must be"},
		{"draining before fields", "{}", true, nil, 503, "the node is draining"},
		{"deadline before user", `{"execute_before":-1}`, false, nil, 400, "execute_before"},
		{"user before key", `{"max_retries":101}`, false, nil, 400, "user_id"},
		{"key before retries", `{"user_id":"u","max_retries":101}`, false, nil, 400, "idempotent_key"},
		{"retries of the header are a field", `{"user_id":"u","idempotent_key":"k"}`, false, []string{"X-Aqueduct-Max-Retries", "101"}, 400, "X-Aqueduct-Max-Retries must be between -1 and 100, got 101"},
		{"retries before scope", `{"user_id":"u","idempotent_key":"k","max_retries":101,"idempotency_scope":"x"}`, false, nil, 400, "max_retries"},
		{"scope before url", `{"user_id":"u","idempotent_key":"k","idempotency_scope":"shared"}`, false, nil, 400, "not enabled"},
		{"url before method", `{"user_id":"u","idempotent_key":"k"}`, false, nil, 400, "url is required"},
		{"method before webhook", `{"user_id":"u","idempotent_key":"k","url":"http://h/"}`, false, nil, 400, "method"},
		{"webhook last", `{"user_id":"u","idempotent_key":"k","url":"http://h/","method":"GET"}`, false, nil, 400, "webhook_url is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.draining = c.draining
			h := f.handler(func(cfg *api.Config) { cfg.MaxBodyBytes = 100 })
			resp, body := ask(t, client.InProcess(h), http.MethodPost, "/jobs", strings.NewReader(c.body), c.headers...)
			if resp.StatusCode != c.status || !strings.Contains(body, c.text) {
				t.Errorf("answered %d %s, want %d with %q", resp.StatusCode, body, c.status, c.text)
			}
		})
	}
}

// taken submits a job and returns what the intake got.
func taken(t *testing.T, body string, headers ...string) intake.Submission {
	t.Helper()
	f := newFake()
	var got intake.Submission
	f.submit = func(_ context.Context, s intake.Submission) (intake.Receipt, error) {
		got = s
		return intake.Receipt{ID: idOf(1), Status: job.Queued}, nil
	}
	resp, text := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(body), headers...)
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("answered %d %s", resp.StatusCode, text)
	}
	return got
}

func TestSubmitReadsHeadersUnderBothPrefixes(t *testing.T) {
	for _, c := range []struct {
		headers    []string
		retries    int
		durability store.Durability
	}{
		{nil, 4, store.Default},
		{[]string{"X-Aqueduct-Max-Retries", " 7 ", "X-Aqueduct-Durability", "sync"}, 7, store.Sync},
		{[]string{"X-Aquifer-Max-Retries", "-1", "X-Aquifer-Durability", "flush"}, -1, store.Flush},
		{[]string{"X-Aqueduct-Max-Retries", "7", "X-Aquifer-Max-Retries", "8"}, 7, store.Default},
		{[]string{"X-Aqueduct-Max-Retries", "", "X-Aquifer-Max-Retries", "8"}, 8, store.Default},
	} {
		got := taken(t, valid, c.headers...)
		if got.Request.MaxRetries != c.retries || got.Durability != c.durability {
			t.Errorf("%q: got %d retries, durability %v", c.headers, got.Request.MaxRetries, got.Durability)
		}
	}
}

func TestSubmitIdempotencyKeyHeader(t *testing.T) {
	if got := taken(t, with("idempotent_key", ""), "Idempotency-Key", "from header"); got.Request.KeyName != "from header" {
		t.Errorf("key %q, want that of the header", got.Request.KeyName)
	}
	if got := taken(t, valid, "Idempotency-Key", "from header"); got.Request.KeyName != "k" {
		t.Errorf("key %q, want that of the body", got.Request.KeyName)
	}
	resp, body := ask(t, client.InProcess(newFake().handler()), http.MethodPost, "/jobs",
		strings.NewReader(with("idempotent_key", "")), "Idempotency-Key", "\xff")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Idempotency-Key must be UTF-8") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

func TestSubmitAccepted(t *testing.T) {
	f := newFake()
	f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) {
		return intake.Receipt{
			ID: idOf(9), Status: job.Queued, Durability: store.Sync,
			Load: intake.Load{ActiveQueues: 2, UpstreamBacklog: 30, QueueBacklog: 4},
		}, nil
	}
	resp, body := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(valid))
	want := `{"job_id":"` + idOf(9).String() + `","status":"queued"}` + "\n"
	if resp.StatusCode != http.StatusCreated || body != want {
		t.Errorf("answered %d %s, want 201 %s", resp.StatusCode, body, want)
	}
	for name, value := range map[string]string{
		"Active-Queues": "2", "Upstream-Backlog": "30", "Queue-Backlog": "4", "Admission-Pressure": "0.000", "Durability": "sync",
	} {
		for _, prefix := range []string{"X-Aqueduct-", "X-Aquifer-"} {
			if got := resp.Header.Values(prefix + name); len(got) != 1 || got[0] != value {
				t.Errorf("%s%s is %q, want %q", prefix, name, got, value)
			}
		}
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
}

func TestSubmitDuplicate(t *testing.T) {
	for _, c := range []struct {
		receipt intake.Receipt
		want    string
	}{
		{intake.Receipt{ID: idOf(9), Status: job.Queued, Duplicate: true}, `"status":"queued","duplicate":true}`},
		{intake.Receipt{ID: idOf(9), Status: job.Completed, Duplicate: true}, `"status":"completed","duplicate":true}`},
		{intake.Receipt{ID: idOf(9), Status: job.Failed, Duplicate: true, PayloadMismatch: true}, `"status":"failed","duplicate":true,"payload_mismatch":true}`},
	} {
		f := newFake()
		f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) { return c.receipt, nil }
		resp, body := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(valid))
		if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, c.want+"\n") {
			t.Errorf("answered %d %s, want 200 and %s", resp.StatusCode, body, c.want)
		}
		if resp.Header.Get("X-Aqueduct-Active-Queues") != "" {
			t.Error("a duplicate has queue headers")
		}
	}
}

func TestID02_StrictNodeRefusesAnotherPayload(t *testing.T) {
	f := newFake()
	f.submit = func(_ context.Context, s intake.Submission) (intake.Receipt, error) {
		return intake.Receipt{}, fault.New(fault.Mismatch, "idempotent_key %q is taken", s.Request.KeyName)
	}
	resp, body := ask(t, client.InProcess(f.handler()), http.MethodPost, "/jobs", strings.NewReader(valid))
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, `\"k\"`) {
		t.Errorf("answered %d %s, want 422 naming the key", resp.StatusCode, body)
	}
}

// Spacing in a JSON body is part of the body, so it counts as another payload.
func TestID02_SpacingIsPartOfThePayload(t *testing.T) {
	a := taken(t, with("body", `"{\"a\":1}"`)).Request.Payload()
	b := taken(t, with("body", `"{\"a\": 1}"`)).Request.Payload()
	again := taken(t, strings.ReplaceAll(with("body", `"{\"a\":1}"`), ",", " , ")).Request.Payload()
	if a == b || a != again {
		t.Errorf("payloads %x %x %x: want the second alone to differ", a, b, again)
	}
}

func TestHD02_IllegalHeadersAreRefused(t *testing.T) {
	for _, c := range []struct {
		headers string
		status  int
		text    string
	}{
		{`{"X-A":"a\r\nX-B: c"}`, 400, `headers["X-A"] must be a valid header value`},
		{`{"X-A":"a\u0000"}`, 400, `headers["X-A"] must be a valid header value`},
		{`{"X A":"a"}`, 400, `headers must have valid names, got "X A"`},
		{`{"":"a"}`, 400, `headers must have valid names, got ""`},
		{`{"X-A:":"a"}`, 400, `headers must have valid names`},
		{`{"x-a":"1","X-A":"2"}`, 400, `headers must name "X-A" once`},
		// The node frames its calls itself: these are legal and stay behind at the dispatch.
		{`{"Host":"h","Content-Length":"5","Transfer-Encoding":"chunked","Connection":"X-Auth"}`, 201, ""},
	} {
		resp, body := ask(t, client.InProcess(newFake().handler()), http.MethodPost, "/jobs", strings.NewReader(with("headers", c.headers)))
		if resp.StatusCode != c.status || !strings.Contains(unescaped(body), c.text) {
			t.Errorf("%s: answered %d %s, want %d with %q", c.headers, resp.StatusCode, body, c.status, c.text)
		}
	}
}

func TestRedrive(t *testing.T) {
	f := newFake()
	f.redrive = func(_ context.Context, id job.ID) (intake.Receipt, error) {
		if id != idOf(1) {
			return intake.Receipt{}, fault.New(fault.Conflict, "only an ended job can be redriven")
		}
		return intake.Receipt{ID: idOf(2), Status: job.Queued, RedriveOf: id}, nil
	}
	f.redeliver = func(_ context.Context, id job.ID) error {
		if id != idOf(1) {
			return fault.New(fault.Conflict, "only a settled delivery can be redriven")
		}
		return nil
	}
	rt := client.InProcess(f.handler())
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/jobs/" + idOf(1).String() + "/redrive", 201, `{"job_id":"` + idOf(2).String() + `","status":"queued","redrive_of":"` + idOf(1).String() + `"}`},
		{"/jobs/" + idOf(3).String() + "/redrive", 409, `{"error":"only an ended job can be redriven"}`},
		{"/jobs/xyz/redrive", 404, `{"error":"job not found: xyz"}`},
		{"/jobs/" + idOf(1).String() + "/webhook/redrive", 202, `{"job_id":"` + idOf(1).String() + `","webhook":{"state":"pending"}}`},
		{"/jobs/" + idOf(3).String() + "/webhook/redrive", 409, `{"error":"only a settled delivery can be redriven"}`},
		{"/jobs/xyz/webhook/redrive", 404, `{"error":"job not found: xyz"}`},
	} {
		resp, body := ask(t, rt, http.MethodPost, c.path, nil)
		if resp.StatusCode != c.status || body != c.body+"\n" {
			t.Errorf("%s: answered %d %s, want %d %s", c.path, resp.StatusCode, body, c.status, c.body)
		}
	}
	f.draining = true
	for _, path := range []string{"/redrive", "/webhook/redrive"} {
		if resp, _ := ask(t, rt, http.MethodPost, "/jobs/"+idOf(1).String()+path, nil); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s while draining: status %d", path, resp.StatusCode)
		}
	}
}

func TestAcceptanceIsToldToWhoDebugs(t *testing.T) {
	f := newFake()
	var log strings.Builder
	f.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	known := false
	f.submit = func(context.Context, intake.Submission) (intake.Receipt, error) {
		return intake.Receipt{ID: idOf(1), Status: job.Queued, Duplicate: known}, nil
	}
	rt := client.InProcess(f.handler())
	for _, want := range []string{"job accepted", "key is known"} {
		log.Reset()
		if resp, body := ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(with("user_id", `"alice"`))); resp.StatusCode/100 != 2 {
			t.Fatal(body)
		}
		if got := log.String(); !strings.Contains(got, `level=DEBUG msg="`+want+`" job_id=`+idOf(1).String()+"\n") || strings.Contains(got, "alice") {
			t.Errorf("logged %q, want %s", got, want)
		}
		known = true
	}
}
