// The race detector keeps a shadow of the memory that is measured here.

//go:build !race

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// However many targets answer with as much as they may, at the same time, the memory of the node has a
// bound: its limit, and what the store and the runtime need on top. No attempt fails or is repeated for
// that, and every result is delivered whole.
func TestMemoryIsBoundedWhateverIsAnswered(t *testing.T) {
	const targets, size, limit = 40, 16 << 20, 400 // MB
	answer := bytes.Repeat([]byte("x"), size)
	submitted := make(chan struct{})
	calls, delivered := make(chan struct{}, 10*targets), make(chan int64, 10*targets)
	serveTarget := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hook" {
			n, _ := io.Copy(io.Discard, r.Body)
			delivered <- n
			return
		}
		calls <- struct{}{}
		<-submitted
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		_, _ = w.Write(answer)
	}
	c := serve(t, fmt.Sprint("AQUIFER_MEMORY_LIMIT_MB=", limit), "AQUIFER_PEBBLE_CACHE_MB=8")
	for n := range targets {
		target := httptest.NewServer(http.HandlerFunc(serveTarget))
		t.Cleanup(target.Close)
		path := [...]string{"/known", "/unknown"}[n%2]
		submit(t, c.url, client.Submission{
			UserID: "u", IdempotentKey: fmt.Sprint(n), URL: target.URL + path, Method: "GET", WebhookURL: target.URL + "/hook",
		})
	}
	close(submitted)
	late := time.After(10 * patience) // a busy machine takes long for 1.3 GB
	for n := range targets {
		select {
		case got := <-delivered:
			if got < size {
				t.Errorf("a delivery has %d bytes", got)
			}
		case <-late:
			t.Fatalf("%d of %d results are delivered", n, targets)
		}
	}
	if got := len(calls); got != targets {
		t.Errorf("%d calls for %d jobs", got, targets)
	}
	if peak := peakMemory(t, c); peak > 3*limit {
		t.Errorf("the node needed %d MB with a limit of %d", peak, limit)
	}
	c.signal(syscall.SIGTERM)
	c.wait()
}

// peakMemory is the most memory that a process has had resident, in MB (proc_pid_status(5)).
func peakMemory(t *testing.T, c *child) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak %d MB", kB/1024)
	return kB / 1024
}
