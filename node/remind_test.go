package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A Valkey that comes back empty is told again which keys are jobs that have not ended.
func TestRegionWhoseValkeyForgets(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*world){
		"emptied":   func(w *world) { w.Do("FLUSHALL") },
		"restarted": func(w *world) { w.Kill(); w.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.node("a"), w.node("b")
			if got := a.ask(http.MethodPost, "/targets/"+strings.TrimPrefix(w.target.URL, "http://")+"/pause", ""); got.code != 200 {
				t.Fatalf("answered %s", got.body)
			}
			const jobs = 300
			ids := make([]string, jobs)
			for i := range ids {
				ids[i] = w.submit(a, fmt.Sprint("key-", i), "/").got.JobID
			}
			w.stands(entryKey("key-299"), `"queued"`)
			for range 2 { // also the second time
				forget(w)
				for i := range ids {
					w.stands(entryKey(fmt.Sprint("key-", i)), ids[i])
				}
			}
			if got := w.submit(b, "key-7", "/"); got.code != 200 || got.got.JobID != ids[7] {
				t.Errorf("another node answers %d %s", got.code, got.body)
			}
		})
	}
}

// A call that leaves no trace leaves none in Valkey either, though that came back empty during its attempt: the key is
// free at once, at every node.
func TestRegionForgetsDuringACallWithoutATrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun, hold := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-hold
		rw.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer slow.Close()
	a, b := w.node("a", "AQUIFER_PROXY_DIRECT_ATTEMPT_TIMEOUT_SECONDS=600"), w.node("b")
	if got := a.ask(http.MethodPost, "/targets/"+strings.TrimPrefix(w.target.URL, "http://")+"/pause", ""); got.code != 200 {
		t.Fatalf("answered %s", got.body)
	}
	waits := w.submit(a, "waits", "/").got.JobID
	call := make(chan answer)
	go func() {
		call <- a.ask(http.MethodPost, "/proxy", fmt.Sprintf(
			`{"user_id":"u","idempotent_key":"k","method":"POST","url":"%s/","webhook_url":"%s/","direct_only":true}`, slow.URL, w.receiver.URL))
	}()
	<-begun
	if left, _ := w.Do("PTTL", entryKey("k")).AsInt64(); left < 600_000 {
		t.Errorf("the claim ends in %d ms, before the attempt may", left)
	}
	w.Do("FLUSHALL")
	w.stands(entryKey("waits"), waits) // the region is told again
	close(hold)
	if got := <-call; got.code != http.StatusServiceUnavailable {
		t.Errorf("answered %d %s", got.code, got.body)
	}
	first := w.submit(b, "k", "/")
	if first.code != 201 {
		t.Errorf("another node answers %d %s", first.code, first.body)
	}
	w.stands(entryKey("k"), first.got.JobID)
	if got := w.submit(a, "k", "/"); got.code != 200 || got.got.JobID != first.got.JobID {
		t.Errorf("the node answers %d %s", got.code, got.body)
	}
}
