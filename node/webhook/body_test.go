package webhook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/webhook"
)

var testID = job.ID{0: 1, 15: 7}

const idText = "01000000000000000000000000000007"

func ended(status job.Status, reason string, r *job.Result) job.Snapshot {
	return job.Snapshot{
		Job:     &job.Job{ID: testID, Request: job.Request{WebhookURL: "https://rcv.test/in"}},
		State:   job.State{Status: status, Tried: 1, Reason: reason, Result: r},
		Webhook: job.Webhook{State: job.WebhookPending, Order: 3},
	}
}

func TestBody(t *testing.T) {
	for name, c := range map[string]struct {
		job     job.Snapshot
		payload []byte
		want    string
	}{
		"completed": {
			ended(job.Completed, "", &job.Result{Status: 201, Body: []byte(`{"zebra":1,"alpha":1.0,"k":1,"k":2}`)}), nil,
			`{"body":"{\"zebra\":1,\"alpha\":1.0,\"k\":1,\"k\":2}","job_id":"` + idText + `","response_status":201,"status":"completed"}`,
		},
		"empty answer": {
			ended(job.Completed, "", &job.Result{Status: 204}), nil,
			`{"body":"","job_id":"` + idText + `","response_status":204,"status":"completed"}`,
		},
		"the stored body is cut": {
			ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("gr"), Truncated: true}), []byte("grün"),
			`{"body":"grün","job_id":"` + idText + `","response_status":200,"status":"completed"}`,
		},
		"the answer itself was cut": {
			ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("g"), Truncated: true, Partial: true}), []byte("gr\xc3"),
			`{"body":"gr","body_truncated":true,"job_id":"` + idText + `","response_status":200,"status":"completed"}`,
		},
		"the whole body is gone": {
			ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("gr"), Truncated: true}), nil,
			`{"body":"gr","body_truncated":true,"job_id":"` + idText + `","response_status":200,"status":"completed"}`,
		},
		"failed with an answer": {
			ended(job.Failed, "upstream returned 503", &job.Result{Status: 503, Body: []byte("<busy>")}), nil,
			`{"body":"\u003cbusy\u003e","job_id":"` + idText + `","reason":"upstream returned 503","response_status":503,"status":"failed"}`,
		},
		"failed without an answer": {
			ended(job.Failed, "connection refused", nil), nil,
			`{"body":"","job_id":"` + idText + `","reason":"connection refused","response_status":0,"status":"failed"}`,
		},
		"deadline passed": {
			ended(job.Failed, "execution_deadline_exceeded", nil), nil,
			`{"job_id":"` + idText + `","reason":"execution_deadline_exceeded","status":"failed"}`,
		},
		"internal panic": {
			ended(job.Failed, "internal panic", nil), nil,
			`{"job_id":"` + idText + `","reason":"internal panic","status":"failed"}`,
		},
		"retry window over": {
			ended(job.Failed, "retry_window_exhausted: upstream returned 500", &job.Result{Status: 500}), nil,
			`{"body":"","job_id":"` + idText + `","reason":"retry_window_exhausted: upstream returned 500","response_status":500,"status":"failed"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := webhook.Body(c.job, c.payload)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Bytes that are no text arrive as they are.
func TestBD02_BinaryBody(t *testing.T) {
	got, err := webhook.Body(ended(job.Completed, "", &job.Result{Status: 200, Body: []byte("\xff\xfe\x00\xc3\x28")}), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"body":"//4Awyg=","body_encoding":"base64","job_id":"` + idText + `","response_status":200,"status":"completed"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Every body comes out byte for byte, and the same result always makes the same bytes.
func TestBodyKeepsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		kept := rapid.IntRange(0, len(body)).Draw(t, "kept")
		status := rapid.SampledFrom([]job.Status{job.Completed, job.Failed}).Draw(t, "status")
		whole := ended(status, "why \xff", &job.Result{Status: 200, Body: body})
		cut := ended(status, "why \xff", &job.Result{Status: 200, Body: body[:kept], Truncated: true})

		first, err := webhook.Body(whole, nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := webhook.Body(cut, body)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s and %s differ, %v", first, second, err)
		}
		var got struct {
			Body     string `json:"body"`
			Encoding string `json:"body_encoding"`
		}
		if err := json.Unmarshal(first, &got); err != nil || bytes.ContainsRune(first, '\n') {
			t.Fatalf("%s: %v", first, err)
		}
		back := []byte(got.Body)
		if got.Encoding == job.EncodingBase64 {
			if back, err = base64.StdEncoding.DecodeString(got.Body); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(back, body) {
			t.Fatalf("%q became %q", body, back)
		}
	})
}

func BenchmarkBody(b *testing.B) {
	s := ended(job.Completed, "", &job.Result{Status: 200, Body: bytes.Repeat([]byte(`{"a":"b"}`), 30)})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := webhook.Body(s, nil); err != nil {
			b.Fatal(err)
		}
	}
}
