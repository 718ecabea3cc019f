package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

func TestSinkWritesDownWhatItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		s := &sink{out: &out, delay: 200 * time.Millisecond}
		at := time.Now().UnixMilli()
		for _, header := range []http.Header{
			{"X-Aqueduct-Job-Id": {someID}, "X-Aqueduct-Attempt": {"2"}, "X-Aqueduct-Node-Id": {"node-1"}},
			{"X-Aqueduct-Delivery-Id": {"d"}, "X-Aqueduct-Node-Id": {"node-1"}},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/a/b?c=d", strings.NewReader("hello"))
			r.Header = header
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != 200 || w.Body.String() != `{"ok":true}`+"\n" {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
		}
		var got []arrival
		for line := range strings.Lines(out.String()) {
			var a arrival
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			got = append(got, a)
		}
		want := []arrival{
			{At: at, Method: "POST", Path: "/a/b?c=d", Job: someID, Attempt: 2, Node: "node-1", Bytes: 5},
			{At: at + 200, Method: "POST", Path: "/a/b?c=d", Delivery: "d", Node: "node-1", Bytes: 5},
		}
		if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("wrote %+v, want %+v", got, want)
		}
	})
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// What cannot be written down is not answered as if it had been.
func TestSinkWithoutOutput(t *testing.T) {
	w := httptest.NewRecorder()
	(&sink{out: brokenPipe{}}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("answered %d", w.Code)
	}
}

// A node works with it on both sides, and it stops when it is told to.
func TestSinkServesANode(t *testing.T) {
	c := start(t, (*exec.Cmd).StderrPipe, nil, "sink", "--listen", "127.0.0.1:0")
	address := "http://" + strings.TrimPrefix(c.line("listening on "), "listening on ")
	node := serve(t)
	got := invoke("", "job", "submit", "--url", address+"/call", "--webhook", address+"/hook", "--wait", "--server", node.url)
	if got.code != exitDone || !strings.Contains(got.stdout, "completed    status 200") {
		t.Errorf("%+v", got)
	}
	submit(t, node.url, client.Submission{UserID: "u", IdempotentKey: "k", URL: address, Method: "GET", WebhookURL: address})
	node.signal(syscall.SIGTERM)
	if code := node.wait(); code != 0 {
		t.Errorf("node: exit code %d", code)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != 0 {
		t.Errorf("sink: exit code %d", code)
	}
}
