package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// shown is what GET /jobs/{id} says of a job.
func shown(t *testing.T, s job.Snapshot) string {
	t.Helper()
	f := newFake()
	f.put(s)
	resp, body := ask(t, client.InProcess(f.handler()), http.MethodGet, "/jobs/"+s.Job.ID.String(), nil)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	body = strings.TrimSuffix(body, "\n")
	var j client.Job
	if err := json.Unmarshal([]byte(body), &j); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(j); err != nil || string(again) != body {
		t.Errorf("a client shows\n%s (%v) of\n%s", again, err, body)
	}
	return body
}

func TestShowQueued(t *testing.T) {
	want := `{"job_id":"` + idOf(1).String() + `","status":"queued","user_id":"u","url":"http://target.example:81/x","method":"POST",` +
		`"webhook_url":"http://receiver.example/hook","created_at":1000,"execute_before":0,"max_retries":4,` +
		`"webhook":{"state":"none","attempts":0,"last_status":0},"headers":{},"attempts":[]}`
	if got := shown(t, queuedJob(1, 1)); got != want {
		t.Errorf("shown as\n%s, want\n%s", got, want)
	}
}

func TestShowEverything(t *testing.T) {
	s := queuedJob(2, 1)
	s.Job.Request.TimeoutMS, s.Job.Request.ExecuteBefore, s.Job.RedriveOf = 0, 9000, idOf(1)
	s.State, _ = s.State.Begin(1)
	s.State, _ = s.State.Retry(job.Attempt{Number: 1, StartedAt: 1100, DurationMS: 5, Error: job.Timeout, MaybeExecuted: true, RetryWaitMS: 2000}, 3105)
	s.State, _ = s.State.Begin(2)
	s.State, _ = s.State.Finish(job.End{
		Status: job.Failed, At: 3200, Keep: 1000, Reason: "upstream returned 503",
		Last:   &job.Attempt{Number: 2, StartedAt: 3105, DurationMS: 95, Status: 503, RetryAfter: "soon"},
		Result: &job.Result{Status: 503, Body: []byte("<busy> & gone"), Truncated: true},
	})
	s.State = s.State.Late(job.Attempt{Number: 3, StartedAt: 1, DurationMS: 2, Status: 200})
	s.Webhook = job.Webhook{State: job.WebhookDelivered, Attempts: 2, LastStatus: 204, DeliveredAt: 4000, LastError: job.DNS}
	got := shown(t, s)
	for _, want := range []string{
		`"status":"failed"`, `"timeout_ms":0`, `"execute_before":9000`, `"redrive_of":"` + idOf(1).String() + `"`, `"reason":"upstream returned 503"`,
		`"webhook":{"state":"delivered","attempts":2,"last_status":204,"last_error":"dns","delivered_at":4000}`,
		`{"number":1,"started_at":1100,"duration_ms":5,"response_status":0,"error":"timeout","maybe_executed":true,"retry_wait_ms":2000}`,
		`{"number":2,"started_at":3105,"duration_ms":95,"response_status":503,"retry_after":"soon"}`,
		`{"number":3,"started_at":1,"duration_ms":2,"response_status":200,"late":true}`,
		`"result":{"response_status":503,"content_type":"","body":"\u003cbusy\u003e \u0026 gone","body_truncated":true}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nis not in\n%s", want, got)
		}
	}
}

func TestShowEndWithoutAnswer(t *testing.T) {
	s := queuedJob(1, 1)
	s.State, _ = s.State.Finish(job.End{Status: job.Failed, At: 2000, Keep: 1, Reason: "execution_deadline_exceeded"})
	want := `"result":{"response_status":0,"content_type":"","body":"","body_truncated":false}`
	if got := shown(t, s); !strings.Contains(got, want) {
		t.Errorf("%s\nis not in\n%s", want, got)
	}
}

func TestShowRedactsSecrets(t *testing.T) {
	s := queuedJob(1, 1)
	for _, name := range []string{"Authorization", "cookie", "X-Api-Key", "x-auth-TOKEN", "Client-Secret", "Accept"} {
		s.Job.Request.Headers = append(s.Job.Request.Headers, job.Header{Name: name, Value: "value of " + name})
	}
	got := shown(t, s)
	if strings.Count(got, "[redacted]") != 5 || strings.Contains(got, "value of x") || !strings.Contains(got, `"Accept":"value of Accept"`) {
		t.Errorf("shown as %s", got)
	}
}

func TestBD02_BytesSurvive(t *testing.T) {
	raw := []byte{0xFF, 0xFE, 0x00, 0xC3, 0x28}
	f := newFake()
	f.put(ended(queuedJob(1, 1), job.Result{Status: 200, Body: raw}))
	c := f.client(t)
	j, err := c.Get(t.Context(), idOf(1).String())
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Result.Bytes()
	if err != nil || string(got) != string(raw) || j.Result.BodyEncoding != "base64" {
		t.Errorf("shown as %q (%s), %v; want % x", j.Result.Body, j.Result.BodyEncoding, err, raw)
	}
	for e, err := range c.Watch(t.Context(), idOf(1).String(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Terminal() && !strings.Contains(string(e.Data), `"body":"//4Awyg=","body_encoding":"base64"`) {
			t.Errorf("streamed as %s", e.Data)
		}
	}
	if got := taken(t, with("body_base64", `"//4Awyg="`)).Request.Body; string(got) != string(raw) {
		t.Errorf("taken as % x, want % x", got, raw)
	}
}

func TestBD03_NothingIsPrintedAgain(t *testing.T) {
	const text = `{"zebra":1,"alpha":1.0,"n":12345678901234567890,"k":1,"k":2}`
	f := newFake()
	f.put(ended(queuedJob(1, 1), job.Result{Status: 200, ContentType: "application/json", Body: []byte(text)}))
	j, err := f.client(t).Get(t.Context(), idOf(1).String())
	if err != nil || j.Result.Body != text || j.Result.BodyEncoding != "" {
		t.Errorf("shown as %+v, %v", j.Result, err)
	}
	if got := taken(t, with("body", `"`+strings.ReplaceAll(text, `"`, `\"`)+`"`)).Request.Body; string(got) != text {
		t.Errorf("taken as %s", got)
	}
}

func TestShowUnknown(t *testing.T) {
	f := newFake()
	rt := client.InProcess(f.handler())
	for _, id := range []string{idOf(1).String(), "x", strings.Repeat("A", 32), strings.Repeat("0", 33)} {
		for _, path := range []string{"/jobs/" + id, "/jobs/" + id + "/stream"} {
			resp, body := ask(t, rt, http.MethodGet, path, nil)
			if resp.StatusCode != http.StatusNotFound || body != `{"error":"job not found: `+id+`"}`+"\n" {
				t.Errorf("%s: answered %d %s", path, resp.StatusCode, body)
			}
		}
	}
	if _, body := ask(t, rt, http.MethodGet, "/jobs/"+strings.Repeat("é", 3000), nil); body != `{"error":"job not found: `+strings.Repeat("é", 64)+`"}`+"\n" {
		t.Errorf("a long one: answered %s", body)
	}
	f.err = errors.New("checksum mismatch in block 7")
	for _, path := range []string{"", "/stream"} {
		resp, body := ask(t, rt, http.MethodGet, "/jobs/"+idOf(1).String()+path, nil)
		if resp.StatusCode != http.StatusInternalServerError || body != `{"error":"internal error"}`+"\n" {
			t.Errorf("%s: answered %d %s", path, resp.StatusCode, body)
		}
	}
}
