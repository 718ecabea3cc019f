package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestMessage(t *testing.T) {
	tests := map[string]struct {
		in   string
		want message
		err  string
	}{
		"nothing":           {in: "", err: "EOF"},
		"cut in the head":   {in: "GET / HTTP/1.1\r\nHost", err: "unexpected EOF"},
		"cut in the body":   {in: "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", err: "unexpected EOF"},
		"no colon":          {in: "GET / HTTP/1.1\r\nnonsense\r\n\r\n", err: "without a colon"},
		"negative length":   {in: "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", err: "content length"},
		"length too great":  {in: "GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", err: "content length"},
		"chunked":           {in: "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: "framing"},
		"attempt no number": {in: "POST / HTTP/1.1\r\nX-Aqueduct-Attempt: x\r\n\r\n", err: "no number"},
		"line too long":     {in: "GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\n\r\n", err: "buffer full"},
		"no body":           {in: "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n", want: message{start: []byte("GET /ready HTTP/1.1")}},
		"request": {
			in: "POST /call/7 HTTP/1.1\r\nx-aqueduct-job-id: 0123456789abcdef00000000000000ff\r\nX-AQUEDUCT-ATTEMPT: 2\r\n" +
				"content-length:3\r\nConnection: Close\r\n\r\nabc",
			want: message{start: []byte("POST /call/7 HTTP/1.1"), body: []byte("abc"), job: 255, attempt: 2, last: true},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var m message
			err := m.read(bufio.NewReader(strings.NewReader(tt.in)))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.start, tt.want.start) || !bytes.Equal(m.body, tt.want.body) || m.job != tt.want.job ||
				m.attempt != tt.want.attempt || m.last != tt.want.last {
				t.Errorf("got %+v", m)
			}
		})
	}
}

// TestMessageIsReused reads messages one after another into one value: nothing of the one before stays.
func TestMessageIsReused(t *testing.T) {
	in := bufio.NewReader(strings.NewReader(
		"HTTP/1.1 201 Created\r\nContent-Length: 8\r\nX-Aqueduct-Job-Id: ffffffffffffffff\r\nX-Aqueduct-Attempt: 1\r\n\r\nlong one" +
			"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno" + "broken\r\n\r\n"))
	var m message
	for _, want := range []struct {
		status int
		body   string
		job    uint64
	}{{201, "long one", 1<<64 - 1}, {503, "no", 0}, {0, "", 0}} {
		if err := m.read(in); err != nil {
			t.Fatal(err)
		}
		if m.status() != want.status || string(m.body) != want.body || m.job != want.job || (m.job == 0 && m.attempt != 0) {
			t.Errorf("got %d %q %d", m.status(), m.body, m.job)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte("POST /call/7 HTTP/1.1\r\nContent-Length: 3\r\nX-Aqueduct-Job-Id: 0123456789abcdef\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte(" \n:\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m message
		in := bufio.NewReader(bytes.NewReader(raw))
		for m.read(in) == nil {
			if len(m.body) > len(raw) {
				t.Fatalf("%d bytes of body from %d", len(m.body), len(raw))
			}
			seqOf(m.path())
			m.status()
			field(m.body, "job_id")
		}
	})
}

// TestRequestIsWhatItShouldBe reads the hand-made request with net/http and the node's own decoder.
func TestRequestIsWhatItShouldBe(t *testing.T) {
	f := form{host: "127.0.0.1:1", targets: []string{"127.0.0.1:2"}, receiver: "127.0.0.1:3", tenants: 10, body: jobBody(256)}
	raw, scratch := f.append(nil, nil, 123)
	again, _ := f.append(nil, scratch, 123)
	if !bytes.Equal(raw, again) {
		t.Error("scratch space changes the request")
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	if req.Method != http.MethodPost || req.URL.Path != "/jobs" || req.Host != f.host || req.ContentLength != int64(len(body)) {
		t.Errorf("request %s %s to %s of %d", req.Method, req.URL.Path, req.Host, req.ContentLength)
	}
	j, err := job.Decode(body, job.Hints{}, job.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	if j.UserID != "tenant-3" || j.KeyName != "job-123" || j.URL != "http://127.0.0.1:2/call/123" ||
		j.WebhookURL != "http://127.0.0.1:3/webhook/123" || !bytes.Equal(j.Body, jobBody(256)) || len(j.Body) != 256 {
		t.Errorf("job %+v", j)
	}
}

func TestIDTail(t *testing.T) {
	tests := map[string]uint64{
		"": 0, "ff": 0, "00000000000000ff": 255, "ffffffffffffffff0000000000000001": 1,
		"00000000000000FF": 0, "000000000000000g": 0,
	}
	for in, want := range tests {
		if got := idTail([]byte(in)); got != want {
			t.Errorf("tail of %q is %d, want %d", in, got, want)
		}
	}
}

func TestField(t *testing.T) {
	const webhook = `{"body":"{\"job_id\":\"no\"}","job_id": "yes","n":1,"response_status":200,"status":"completed"}`
	tests := map[string]string{"job_id": "yes", "status": "completed", "n": "", "absent": ""}
	for name, want := range tests {
		if got := field([]byte(webhook), name); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := field([]byte(`{"open":"end`), "open"); got != nil {
		t.Errorf("cut off value: %q", got)
	}
}
