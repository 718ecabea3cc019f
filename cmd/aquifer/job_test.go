package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const someID = "019a0c6f3b2e5d1c4a7f00112233aabb"

// outcome is how a command ended.
type outcome struct {
	code           exitCode
	stdout, stderr string
}

// invoke runs a command in this process.
func invoke(stdin string, args ...string) outcome {
	var out, errs strings.Builder
	code := run(&process{args: args, stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs})
	return outcome{code, out.String(), errs.String()}
}

// against runs a command against a node that is a handler.
func against(t *testing.T, h http.HandlerFunc, stdin string, args ...string) outcome {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	return invoke(stdin, append(args, "--server", server.URL)...)
}

// answer returns a handler that always says the same.
func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestRefusalsHaveExitCodes(t *testing.T) {
	tests := []struct {
		name   string
		h      http.HandlerFunc
		code   exitCode
		stderr string // part of it
	}{
		{"invalid", answer(400, `{"error":"webhook_url is required"}`), exitUsage, "aquifer: the node refuses the request: webhook_url is required\n"},
		{"too large", answer(413, `{"error":"the body is over the limit","limit_bytes":10}`), exitUsage, "over the limit"},
		{"mismatch", answer(422, `{"error":"key taken"}`), exitUsage, "key taken"},
		{"not found", answer(404, `{"error":"job not found"}`), exitNotFound, "aquifer: job not found\n"},
		{"conflict", answer(409, `{"error":"not yet"}`), exitFailed, "not yet"},
		{"overloaded", answer(429, `{"error":"disk is full"}`, "Retry-After", "7"), exitTryLater, "refuses the request for now: disk is full; try again in 7 s\n"},
		{"draining", answer(503, `{"error":"stopping"}`, "X-Aqueduct-Node-State", "draining"), exitTryLater, "stopping\n"},
		{"gateway", answer(502, `<html>`), exitTryLater, "Bad Gateway"},
		{"internal", answer(500, `{"error":"internal error"}`), exitFailed, "internal error"},
		{"not a node", answer(200, `<html>`), exitFailed, "aquifer: "},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, exitFailed, "the node at http://127.0.0.1:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, args := range [][]string{
				{"job", "get", someID},
				{"job", "list"},
				{"job", "submit", "--url", "http://localhost/", "--webhook", "http://localhost/"},
			} {
				got := against(t, tt.h, "", args...)
				if got.code != tt.code || got.stdout != "" || !strings.Contains(got.stderr, tt.stderr) {
					t.Errorf("%v: %+v, want code %d and %q", args, got, tt.code, tt.stderr)
				}
			}
		})
	}
}

func TestSubmitSendsWhatItWasTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--url", "http://a/", "--webhook", "http://b/"}
	tests := []struct {
		name  string
		args  []string
		stdin string
		want  map[string]any // besides the idempotent_key when it is random
		sync  bool
	}{
		{
			name: "defaults", args: base,
			want: map[string]any{"user_id": "cli", "url": "http://a/", "webhook_url": "http://b/", "method": "GET"},
		},
		{
			name: "everything",
			args: append(base, "--user", "alice", "--key", "k", "--method", "PUT", "--body", "x,y", "--header", "Accept: a, b",
				"--header", "X-Empty:", "--max-retries=-1", "--timeout", "1m30s", "--sync"),
			want: map[string]any{
				"user_id": "alice", "idempotent_key": "k", "url": "http://a/", "webhook_url": "http://b/", "method": "PUT",
				"body": "x,y", "headers": map[string]any{"Accept": "a, b", "X-Empty": ""}, "max_retries": -1.0, "timeout_ms": 90000.0,
			},
			sync: true,
		},
		{
			name: "zeros are told", args: append(base, "--key", "k", "--max-retries", "0", "--timeout", "0"),
			want: map[string]any{
				"user_id": "cli", "idempotent_key": "k", "url": "http://a/", "webhook_url": "http://b/", "method": "GET",
				"max_retries": 0.0, "timeout_ms": 0.0,
			},
		},
		{
			name: "a body makes it a POST", args: append(base, "--key", "k", "--body-file", file),
			want: map[string]any{
				"user_id": "cli", "idempotent_key": "k", "url": "http://a/", "webhook_url": "http://b/", "method": "POST",
				"body": "from a file",
			},
		},
		{
			name: "bytes from standard input", args: append(base, "--key", "k", "--body-file", "-"), stdin: "\xff\x00",
			want: map[string]any{
				"user_id": "cli", "idempotent_key": "k", "url": "http://a/", "webhook_url": "http://b/", "method": "POST",
				"body_base64": "/wA=",
			},
		},
		{
			name: "JSON", args: []string{"-", "--sync"},
			stdin: `{"user_id":"u","idempotent_key":"k","url":"http://a/","method":"post","webhook_url":"http://b/","headers":{"A":"1"},
				"body_base64":"/wA=","execute_before":5,"idempotency_scope":"shared","max_retries":0,"timeout_ms":0}`,
			want: map[string]any{
				"user_id": "u", "idempotent_key": "k", "url": "http://a/", "method": "post", "webhook_url": "http://b/",
				"headers": map[string]any{"A": "1"}, "body_base64": "/wA=", "execute_before": 5.0, "idempotency_scope": "shared",
				"max_retries": 0.0, "timeout_ms": 0.0,
			},
			sync: true,
		},
		{
			name: "JSON that says little is sent as it is", args: []string{"-"}, stdin: `{"url":"http://a/","body":"b"}`,
			want: map[string]any{"url": "http://a/", "body": "b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got map[string]any
			var durability string
			h := func(w http.ResponseWriter, r *http.Request) {
				durability = r.Header.Get("X-Aqueduct-Durability")
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				answer(201, `{"job_id":"`+someID+`","status":"queued"}`)(w, r)
			}
			out := against(t, h, tt.stdin, append([]string{"job", "submit"}, tt.args...)...)
			if out.code != exitDone || out.stdout != someID+"\n" {
				t.Fatalf("%+v", out)
			}
			if tt.name == "defaults" {
				if key, _ := got["idempotent_key"].(string); len(key) < 20 {
					t.Errorf("the key is not random: %q", key)
				}
				delete(got, "idempotent_key")
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("sent %v, want %v", got, tt.want)
			}
			if (durability == "sync") != tt.sync {
				t.Errorf("asked for durability %q", durability)
			}
		})
	}
}

func TestSubmitTellsWhatBecameOfTheJob(t *testing.T) {
	tests := []struct{ answer, note string }{
		{`{"job_id":"` + someID + `","status":"queued"}`, "accepted; follow it with: aquifer job watch " + someID + "\n"},
		{`{"job_id":"` + someID + `","status":"completed","duplicate":true}`, "nothing new accepted: the key belongs to this job, which is completed\n"},
		{
			`{"job_id":"` + someID + `","status":"failed","duplicate":true,"payload_mismatch":true}`,
			"nothing new accepted: the key belongs to a failed job that asks for something else\n",
		},
	}
	for _, tt := range tests {
		got := against(t, answer(200, tt.answer), "", "job", "submit", "--url", "http://a/", "--webhook", "http://b/")
		if want := (outcome{exitDone, someID + "\n", tt.note}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		got = against(t, answer(200, tt.answer), "", "job", "submit", "--url", "http://a/", "--webhook", "http://b/", "--json")
		if got.stderr != "" || !strings.HasPrefix(got.stdout, `{"job_id":"`+someID+`","status":"`) {
			t.Errorf("%+v", got)
		}
	}
}

func TestSubmitDoesNotFollowAnotherJob(t *testing.T) {
	known := answer(200, `{"job_id":"`+someID+`","status":"completed","duplicate":true,"payload_mismatch":true}`)
	got := against(t, known, "", "job", "submit", "--url", "http://a/", "--webhook", "http://b/", "--wait")
	want := outcome{exitUsage, someID + "\n", "nothing new accepted: the key belongs to a completed job that asks for something else\n"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// stream returns a handler that takes every job and tells what becomes of it.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answer(201, `{"job_id":"`+someID+`","status":"queued"}`)(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range events {
			name, data, _ := strings.Cut(e, " ")
			_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", i+1, name, data)
		}
	}
}

func TestWatchEndsAsTheJobDoes(t *testing.T) {
	const (
		queued    = `queued {"job_id":"x","status":"queued"}`
		position  = `position {"job_id":"x","position":3}`
		sent      = `dispatching {"attempt":1,"job_id":"x"}`
		retrying  = `retrying {"attempt":1,"job_id":"x","max_retries":4,"reason":"upstream returned 503","response_status":503,"retry_at":0}`
		novelty   = `novelty {"x":1}`
		completed = `completed {"body":"a\u001b[2Jb","job_id":"x","response_status":404}`
		failed    = `failed {"attempts":2,"body":"no","job_id":"x","reason":"upstream returned 503","response_status":503}`
		dropped   = `failed {"job_id":"x","reason":"execution_deadline_exceeded"}`
	)
	tests := []struct {
		name   string
		events []string
		code   exitCode
		lines  []string // what stands after the time of each line
	}{
		{
			"completed", []string{queued, position, sent, retrying, novelty, completed}, exitDone,
			[]string{
				"queued       accepted, waits its turn", "position     3 in its queue", "dispatching  attempt 1",
				"retrying     attempt 1 failed: upstream returned 503; the next is due at ", "novelty      ",
				`completed    status 404, "a\x1b[2Jb"`,
			},
		},
		{
			"failed", []string{failed}, exitJobFailed,
			[]string{`failed       upstream returned 503, after 2 attempts; status 503, "no"`},
		},
		{"dropped", []string{dropped}, exitJobFailed, []string{"failed       execution_deadline_exceeded"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := against(t, stream(tt.events...), "", "job", "watch", someID)
			lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
			if got.code != tt.code || got.stderr != "" || len(lines) != len(tt.lines) {
				t.Fatalf("%+v, want code %d", got, tt.code)
			}
			for i, line := range lines {
				if _, text, _ := strings.Cut(line, "  "); !strings.HasPrefix(text, tt.lines[i]) {
					t.Errorf("line %q, want %q", text, tt.lines[i])
				}
			}

			got = against(t, stream(tt.events...), "", "job", "submit", "--url", "http://a/", "--webhook", "http://b/", "--wait", "--json")
			for i, line := range strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")[1:] {
				name, data, _ := strings.Cut(tt.events[i], " ")
				if want := fmt.Sprintf(`{"id":"%d","event":"%s","data":%s}`, i+1, name, data); line != want {
					t.Errorf("line %s, want %s", line, want)
				}
			}
			if got.code != tt.code {
				t.Errorf("submit --wait: exit code %d, want %d", got.code, tt.code)
			}
		})
	}
}

func TestWatchOfNoJob(t *testing.T) {
	got := against(t, answer(404, `{"error":"job not found"}`), "", "job", "watch", someID)
	if want := (outcome{exitNotFound, "", "aquifer: job not found\n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
