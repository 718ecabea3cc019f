package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// serve starts a node and waits until it serves.
func serve(t *testing.T, env ...string) *child {
	t.Helper()
	c := launch(t, env...)
	c.serving()
	return c
}

// launch starts a node.
func launch(t *testing.T, env ...string) *child {
	t.Helper()
	return start(t, (*exec.Cmd).StderrPipe, append([]string{
		"AQUIFER_LISTEN=127.0.0.1:0", "AQUIFER_LOG=json", "AQUIFER_SHUTDOWN_QUIESCE_MS=0",
	}, env...), "serve")
}

// serving waits until the node serves.
func (c *child) serving() {
	c.t.Helper()
	var log struct{ Address string }
	if err := json.Unmarshal([]byte(c.line(`"address":`)), &log); err != nil {
		c.t.Fatal(err)
	}
	c.url = "http://" + log.Address
}

func TestServeStopsGracefullyAtTheFirstSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := serve(t)
		c.signal(sig)
		if code := c.wait(); code != 0 {
			t.Errorf("%v: exit code %d", sig, code)
		}
		for _, line := range c.lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("not a line of JSON: %s", line)
			}
		}
	}
}

// A call that hangs holds a graceful stop up; the second signal does not wait for it.
func TestServeEndsAtOnceAtTheSecondSignal(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(called)
		<-release
	}))
	defer target.Close()
	defer close(release)
	c := serve(t)
	submit(t, c.url, client.Submission{UserID: "u", IdempotentKey: "k", URL: target.URL, Method: "GET", WebhookURL: target.URL})
	<-called
	c.signal(syscall.SIGTERM)
	c.line("another signal ends the process at once")
	<-time.After(sameSignal) // the next one is not the first one sent twice
	c.signal(syscall.SIGINT)
	if code := c.wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	c.line("ended at once")
}

func TestServeOnlyNotesAHangup(t *testing.T) {
	c := serve(t)
	c.signal(syscall.SIGHUP)
	c.line("SIGHUP is reserved")
	if got := invoke("", "job", "list", "--server", c.url); got.code != exitDone {
		t.Errorf("after a hangup: %+v", got)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeSetsTheCollectorUnlessTold(t *testing.T) {
	for env, want := range map[string]string{"": "go_gc_gogc_percent 200\n", "GOGC=50": "go_gc_gogc_percent 50\n"} {
		c := serve(t, env)
		if metrics := fetch(t, c.url+"/metrics"); !strings.Contains(metrics, want) {
			t.Errorf("%q: no %q in the metrics", env, want)
		}
		c.signal(syscall.SIGTERM)
		c.wait()
	}
}

func submit(t *testing.T, server string, s client.Submission) client.Receipt {
	t.Helper()
	c, err := client.New(server, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNodeScripts runs what needs a node. The target answers with the path and the body it got, with
// the status that the path names.
func TestNodeScripts(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(target.Close) // the scripts run in parallel, after this function
	c := serve(t)
	p := scripts("testdata/node")
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("AQUIFER_SERVER", c.url)
		e.Setenv("TARGET", target.URL)
		e.Setenv("TARGET_HOST", strings.TrimPrefix(target.URL, "http://"))
		return nil
	}
	testscript.Run(t, p)
}

func echo(w http.ResponseWriter, r *http.Request) {
	status := map[string]int{"/404": 404, "/503": 503}[r.URL.Path]
	if status == 0 {
		status = 200
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Test")+" ")
	_, _ = io.Copy(w, r.Body)
}
