package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
	"github.com/aquifer-fleet/aquifer/node/job"
	"github.com/aquifer-fleet/aquifer/node/metrictest"
)

// neighbor is a node that shares nothing with others but a Valkey. Its disk outlives its process.
type neighbor struct {
	t        *testing.T
	cfg      Config
	fs       vfs.FS
	registry *prometheus.Registry
	url      string
	stop     func()
}

// world is a Valkey, a target and a receiver of results.
type world struct {
	*valkeytest.Server
	t                *testing.T
	target, receiver *httptest.Server
	calls            atomic.Int64
	refuses          atomic.Bool // the receiver
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Server: valkeytest.Start(t), t: t}
	w.target = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.calls.Add(1)
		_, _ = io.WriteString(rw, "done")
	}))
	t.Cleanup(w.target.Close)
	w.receiver = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if w.refuses.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(w.receiver.Close)
	return w
}

// node is a new one, which runs until the test ends.
func (w *world) node(name string, environ ...string) *neighbor {
	w.t.Helper()
	n := &neighbor{t: w.t, fs: vfs.NewMem()}
	n.cfg = mustConfig(w.t, append([]string{
		"AQUIFER_LISTEN=127.0.0.1:0", "AQUIFER_NODE_ID=" + name, "AQUIFER_SHUTDOWN_QUIESCE_MS=0", "AQUIFER_SHUTDOWN_TIMEOUT_SECONDS=600",
		"AQUIFER_VALKEY_URL=" + w.URL(), "AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=true", "AQUIFER_REMOTE_RESULT_ENABLED=true",
		"AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=10000", // which a busy machine keeps
	}, environ...)...)
	for _, d := range []*Target{&n.cfg.Targets.Default, &n.cfg.Webhooks.Default} {
		d.RPS, d.MaxConcurrent = 1000, 10
	}
	n.start()
	w.t.Cleanup(func() { n.stop() })
	return n
}

// start runs a process.
func (n *neighbor) start() {
	n.t.Helper()
	n.registry = prometheus.NewRegistry()
	made, err := New(n.cfg, Deps{FS: n.fs, Registry: n.registry})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := made.Run(ctx); err != nil {
			n.t.Error(err)
		}
	}()
	n.stop = func() {
		cancel()
		<-ended
	}
	select {
	case <-made.Ready():
		n.url = "http://" + made.Addr().String()
	case <-ended:
		n.t.Fatal("the node has ended")
	}
}

// answer is that of a node.
type answer struct {
	code int
	body string
	got  struct {
		JobID           string     `json:"job_id"`
		Status          job.Status `json:"status"`
		Duplicate       bool       `json:"duplicate"`
		PayloadMismatch bool       `json:"payload_mismatch"`
		ResultKey       string     `json:"result_key"`
	}
}

func (n *neighbor) ask(method, path, body string) (a answer) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Error(err)
		return a
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Error(err)
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &a.got)
	}
	if err != nil {
		n.t.Errorf("%s: %v", text, err)
	}
	a.code, a.body = resp.StatusCode, string(text)
	return a
}

// submit hands in a job with a key, which calls the target at a path.
func (w *world) submit(n *neighbor, key, path string) answer {
	return n.ask(http.MethodPost, "/jobs", fmt.Sprintf(
		`{"user_id":"u","idempotent_key":%q,"method":"POST","url":"%s%s","webhook_url":"%s/"}`, key, w.target.URL, path, w.receiver.URL))
}

func (n *neighbor) result(key string) answer {
	n.t.Helper()
	return n.ask(http.MethodGet, "/results?user_id=u&idempotent_key="+key, "")
}

// until waits for a text that has a part.
func until(t *testing.T, part string, text func() string) {
	t.Helper()
	valkeytest.Until(t, func() error {
		if got := text(); !strings.Contains(got, part) {
			return fmt.Errorf("got %q, want %s", got, part)
		}
		return nil
	})
}

// stands waits until Valkey tells of a key what it is to tell.
func (w *world) stands(key, want string) {
	w.t.Helper()
	until(w.t, want, func() string { return w.Get(key) })
}

func entryKey(name string) string {
	return "aqueduct:idempotency:" + job.Key{UserID: "u", Name: name}.WireHash()
}

func resultKey(name string) string {
	return "aqueduct:result:" + job.Key{UserID: "u", Name: name}.WireHash()
}

// counted is a counter of the running process.
func (n *neighbor) counted(name, outcome string) float64 {
	n.t.Helper()
	return metrictest.Value(n.t, n.registry, name, outcome)
}

// A key that comes to two nodes at once is one job.
func TestOneKeyInTheRegion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.node("a"), w.node("b")
	const keys = 20
	for i := range keys {
		key := fmt.Sprint("key-", i)
		answers := make(chan answer, 2)
		for _, n := range []*neighbor{a, b} {
			go func() {
				got := w.submit(n, key, "/")
				for got.code == http.StatusServiceUnavailable { // the other one is just storing it
					got = w.submit(n, key, "/")
				}
				answers <- got
			}()
		}
		one, two := <-answers, <-answers
		if one.got.JobID != two.got.JobID || one.code+two.code != 201+200 || one.got.Duplicate == two.got.Duplicate {
			t.Errorf("answered %s and %s", one.body, two.body)
		}
		w.stands(entryKey(key), `"completed"`)
		if here, there := a.ask("GET", "/jobs/"+one.got.JobID, "").code, b.ask("GET", "/jobs/"+one.got.JobID, "").code; here+there != 200+404 {
			t.Errorf("%s is shown with %d and %d", key, here, there)
		}
	}
	if n := w.calls.Load(); n != keys {
		t.Errorf("%d calls for %d keys", n, keys)
	}
}

// What a job answered at one node is told by another, also when the first is gone.
func TestResultsInTheRegion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, strict := w.node("a"), w.node("b"), w.node("c", "AQUIFER_IDEMPOTENCY_STRICT=true")
	first := w.submit(a, "k", "/")
	w.stands(entryKey("k"), `"completed"`)
	a.stop()
	stored := w.Get(resultKey("k"))
	if got := b.result("k"); got.code != 200 || got.body != stored+"\n" || got.got.JobID != first.got.JobID || !strings.Contains(stored, `"body":"done"`) {
		t.Errorf("answered %d %s, and %s is stored", got.code, got.body, stored)
	}
	got := w.submit(b, "k", "/")
	if got.code != 200 || !got.got.Duplicate || got.got.Status != job.Completed || got.got.ResultKey != resultKey("k") || got.got.PayloadMismatch {
		t.Errorf("the same: answered %d %s", got.code, got.body)
	}
	if got := w.submit(b, "k", "/other"); got.code != 200 || !got.got.PayloadMismatch || got.got.JobID != first.got.JobID {
		t.Errorf("another payload: answered %d %s", got.code, got.body)
	}
	if got := w.submit(strict, "k", "/other"); got.code != 422 || !strings.Contains(got.body, first.got.JobID) {
		t.Errorf("another payload, strictly: answered %d %s", got.code, got.body)
	}
	if got := b.result("unknown"); got.code != 404 {
		t.Errorf("an unknown key: answered %d %s", got.code, got.body)
	}
}

// A node whose ledger goes to Valkey tells it what is left when it ends, and asks it like the others.
func TestTheLedgerInTheRegion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sink := []string{
		"AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=false", "AQUIFER_REMOTE_RESULT_ENABLED=false",
		"AQUIFER_DRAIN_ENABLED=true", "AQUIFER_DRAIN_SINK=valkey",
	}
	a, b := w.node("a", sink...), w.node("b", sink...)
	first := w.submit(a, "k", "/")
	w.stands(entryKey("k"), `"completed"`)
	a.stop()
	if n := a.counted("aquifer_drain_batches_total", "ok"); n != 1 {
		t.Errorf("%v batches were taken", n)
	}
	if text := w.Get(entryKey("k")); !strings.Contains(text, first.got.JobID) || strings.Contains(text, "result_key") {
		t.Errorf("Valkey was told %s", text)
	}
	if got := w.submit(b, "k", "/"); got.code != 200 || !got.got.Duplicate || got.got.JobID != first.got.JobID || got.got.PayloadMismatch {
		t.Errorf("the same: answered %d %s", got.code, got.body)
	}
	if got := w.submit(b, "k", "/other"); got.code != 200 || !got.got.PayloadMismatch {
		t.Errorf("another payload: answered %d %s", got.code, got.body)
	}
}

// Without Valkey each node goes on alone, and says what it cannot tell.
func TestRegionWithoutItsValkey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.node("a"), w.node("b")
	w.submit(a, "before", "/")
	w.stands(entryKey("before"), `"completed"`)
	w.Kill()
	here, there := w.submit(a, "k", "/"), w.submit(b, "k", "/")
	if here.code != 201 || there.code != 201 || here.got.JobID == there.got.JobID {
		t.Errorf("answered %s and %s", here.body, there.body)
	}
	for _, n := range []*neighbor{a, b} {
		if got := n.counted("aquifer_remote_claims_total", "failed"); got != 1 {
			t.Errorf("%v claims have failed", got)
		}
	}
	if got := a.result("before"); got.code != 200 || !strings.Contains(got.body, `"body":"done"`) {
		t.Errorf("its own result: answered %d %s", got.code, got.body)
	}
	if got := b.result("before"); got.code != 503 {
		t.Errorf("a result of another node: answered %d %s", got.code, got.body)
	}
	w.Restart()
	w.stands(entryKey("k"), `"completed"`)
	w.stands(resultKey("k"), `"body":"done"`)
}

// A Valkey that is there and does not answer neither refuses a job nor keeps the node from stopping.
func TestRegionWhoseValkeyHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("a", "AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=25")
	w.Pause()
	if got := w.submit(n, "k", "/"); got.code != 201 {
		t.Errorf("answered %d %s", got.code, got.body)
	}
	until(t, `"body":"done"`, func() string { return n.result("k").body })
	if got := n.counted("aquifer_remote_claims_total", "failed"); got != 1 {
		t.Errorf("%v claims have failed", got)
	}
	n.stop()
	w.Resume()
	n.start()
	if got := w.submit(n, "k", "/"); got.code != 200 || got.got.Status != job.Completed {
		t.Errorf("after the restart: answered %d %s", got.code, got.body)
	}
}

// A process that could not tell what its jobs became leaves that to the next one.
func TestRegionIsRemindedAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuses.Store(true)
	a := w.node("a", "AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=1000")
	w.Kill()
	done := w.submit(a, "done", "/")
	until(t, `"body":"done"`, func() string { return a.result("done").body })
	waits := a.ask(http.MethodPost, "/targets/"+strings.TrimPrefix(w.target.URL, "http://")+"/pause", "")
	queued := w.submit(a, "queued", "/")
	if done.code != 201 || queued.code != 201 || waits.code != 200 {
		t.Fatalf("answered %s, %s and %s", done.body, queued.body, waits.body)
	}
	a.stop()
	w.Restart()
	a.start()
	w.stands(entryKey("done"), `"completed"`)
	w.stands(resultKey("done"), `"body":"done"`)
	w.stands(entryKey("queued"), `"queued"`)
	if got := w.submit(w.node("b"), "queued", "/"); got.code != 200 || got.got.JobID != queued.got.JobID {
		t.Errorf("another node answers %d %s", got.code, got.body)
	}
}
