package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// A hangup has the file read again. One that is not valid is told, and changes nothing.
func TestServeReadsTheFileAgainAtAHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "targets.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("defaults: {rps: 3}")
	c := serve(t, "CONFIG_PATH="+path)
	submit(t, c.url, client.Submission{UserID: "u", IdempotentKey: "k", URL: "http://127.0.0.1:1/", Method: "GET", WebhookURL: "http://127.0.0.1:1/"})
	configured := func() string {
		resp, err := http.Get(c.url + "/targets/127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(body), `"configured":`)
		rate, _, _ := strings.Cut(rest, ",")
		return rate
	}
	write("defaults: {rps: 7}")
	c.signal(syscall.SIGHUP)
	c.line("is read again")
	if got := configured(); got != "7" {
		t.Errorf("after a new file: %s", got)
	}
	write("defaults: {rps: none}")
	c.signal(syscall.SIGHUP)
	c.line("stays as it is")
	if got := configured(); got != "7" {
		t.Errorf("after a bad file: %s", got)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Without a file there is nothing to read again.
func TestServeOutlivesAHangupWithoutAFile(t *testing.T) {
	c := serve(t)
	c.signal(syscall.SIGHUP)
	c.line("CONFIG_PATH names no file")
	if got := invoke("", "job", "list", "--server", c.url); got.code != exitDone {
		t.Errorf("after a hangup: %+v", got)
	}
	c.signal(syscall.SIGTERM)
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeSetsTheRuntimeUnlessTold(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, "go_gc_gogc_percent 300\n"},
		{[]string{"GOGC=50"}, "go_gc_gogc_percent 50\n"},
		{[]string{"GOMAXPROCS="}, fmt.Sprintf("go_sched_gomaxprocs_threads %d\n", defaultThreads()+1)},
		{[]string{"GOMAXPROCS=2"}, "go_sched_gomaxprocs_threads 2\n"},
		{[]string{"AQUIFER_MEMORY_LIMIT_MB=300"}, "go_gc_gomemlimit_bytes 3.145728e+08\n"},
		{[]string{"AQUIFER_MEMORY_LIMIT_MB=300", "GOMEMLIMIT=200MiB"}, "go_gc_gomemlimit_bytes 2.097152e+08\n"},
		{[]string{"AQUIFER_MEMORY_LIMIT_MB=0"}, "go_gc_gomemlimit_bytes 9.223372036854776e+18\n"},
	} {
		n := serve(t, c.env...)
		if metrics := fetch(t, n.url+"/metrics"); !strings.Contains(metrics, c.want) {
			t.Errorf("%q: no %q in the metrics", c.env, c.want)
		}
		n.signal(syscall.SIGTERM)
		n.wait()
	}
}

// defaultThreads is GOMAXPROCS of a process to which nobody has said it, as somebody may have to the tests.
func defaultThreads() int {
	here := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(here)
	runtime.SetDefaultGOMAXPROCS()
	return runtime.GOMAXPROCS(0)
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
	store := filepath.Join(t.TempDir(), "store")
	c := serve(t, "DB_PATH="+store)
	p := scripts("testdata/node")
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("AQUIFER_SERVER", c.url)
		e.Setenv("NODE_STORE", store)
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
