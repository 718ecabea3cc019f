package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aquifer-fleet/aquifer/node/api"
	"github.com/aquifer-fleet/aquifer/node/client"
	"github.com/aquifer-fleet/aquifer/node/fault"
)

func TestHealth(t *testing.T) {
	f := newFake()
	rt := client.InProcess(f.handler())
	if _, body := ask(t, rt, http.MethodGet, "/health", nil); body != `{"status":"ok","admission":{"enabled":false},"queues":{"active":0,"backlog":0,"admission_pressure":0}}`+"\n" {
		t.Errorf("an idle node without admission says %s", body)
	}
	f.draining = true
	f.health = api.Health{
		Admission: api.Admission{Enabled: true, Readings: &api.Readings{
			MemoryMB: 1, MemoryReservedMB: 2, MemoryLimitMB: 3, DBBytes: 4, DBMaxBytes: 5, MaxBodyBytes: 6, RetryAfterSeconds: 7, SyncLagMS: 8,
		}},
		Queues: api.Queues{Active: 2, Backlog: 30},
	}
	resp, body := ask(t, rt, http.MethodGet, "/health", nil)
	want := `{"status":"draining","admission":{"enabled":true,"memory_mb":1,"memory_reserved_mb":2,"memory_limit_mb":3,"db_bytes":4,"db_max_bytes":5,` +
		`"max_body_bytes":6,"retry_after_seconds":7,"sync_lag_ms":8},"queues":{"active":2,"backlog":30,"admission_pressure":0}}` + "\n"
	if resp.StatusCode != http.StatusOK || body != want {
		t.Errorf("a draining node says %d %s, want 200 %s", resp.StatusCode, body, want)
	}
}

func TestReady(t *testing.T) {
	f := newFake()
	rt := client.InProcess(f.handler())
	if resp, body := ask(t, rt, http.MethodGet, "/ready", nil); resp.StatusCode != http.StatusOK || body != `{"status":"ready"}`+"\n" {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	f.notReady = fault.New(fault.Unavailable, "the node is starting")
	if resp, body := ask(t, rt, http.MethodGet, "/ready", nil); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "5" || body != `{"error":"the node is starting"}`+"\n" {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	f.draining = true
	resp, body := ask(t, rt, http.MethodGet, "/ready", nil)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Aqueduct-Node-State") != "draining" || body != `{"error":"the node is draining"}`+"\n" {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

func TestRoutes(t *testing.T) {
	h := newFake().handler(func(c *api.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics of the node") })
	})
	rt := client.InProcess(h)
	if _, body := ask(t, rt, http.MethodGet, "/metrics", nil); body != "metrics of the node" {
		t.Errorf("/metrics: %s", body)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/nothing", 404},
		{http.MethodGet, "/", 404},
		{http.MethodDelete, "/jobs", 405},
		{http.MethodPost, "/health", 405},
		{http.MethodPost, "/metrics", 405},
		{http.MethodPut, "/jobs/" + idOf(1).String(), 405},
		{http.MethodGet, "/jobs/" + idOf(1).String() + "/redrive", 405},
	} {
		resp, body := ask(t, rt, c.method, c.path, nil)
		if resp.StatusCode != c.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s %s: answered %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
	if resp, _ := ask(t, client.InProcess(newFake().handler()), http.MethodGet, "/metrics", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("/metrics without metrics: status %d", resp.StatusCode)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	f := newFake()
	rt := client.InProcess(f.handler(func(c *api.Config) { c.Metrics = promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{}) }))
	ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(valid))
	ask(t, rt, http.MethodPost, "/jobs", strings.NewReader(valid))
	ask(t, rt, http.MethodPost, "/jobs", strings.NewReader("{}"))
	ask(t, rt, http.MethodGet, "/jobs/"+idOf(1).String(), nil)
	_, text := ask(t, rt, http.MethodGet, "/metrics", nil)
	for _, want := range []string{
		`aquifer_http_requests_total{route="GET /jobs/{id}",status="404"} 1`,
		`aquifer_http_requests_total{route="POST /jobs",status="201"} 2`,
		`aquifer_http_requests_total{route="POST /jobs",status="400"} 1`,
		`aquifer_http_request_duration_seconds_count{route="POST /jobs"} 3`,
		`aquifer_http_streams 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}
