package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is what a node works for: a target and a webhook receiver that write down every request before
// they answer it. Both read from the path how they shall behave: see reply.
type world struct {
	target, receiver *httptest.Server

	mu         sync.Mutex // guards all below
	calls      map[string][]call
	deliveries map[string][]call // both by job id, in the order of their arrival
	// meet, if set, is told about each request before it is answered.
	meet func(r *http.Request, delivery bool)
}

// call is one request of a node.
type call struct {
	life     string // the process that sent it: see lives
	attempt  int    // at the target
	keyHash  string // at the target
	delivery string // at the receiver: the id
	body     string
	status   int // that it is answered with
}

func newWorld(t *testing.T) *world {
	w := &world{calls: map[string][]call{}, deliveries: map[string][]call{}}
	w.target = httptest.NewServer(http.HandlerFunc(w.serveTarget))
	t.Cleanup(w.target.Close)
	w.receiver = httptest.NewServer(http.HandlerFunc(w.serveReceiver))
	t.Cleanup(w.receiver.Close)
	return w
}

func (w *world) serveTarget(rw http.ResponseWriter, r *http.Request) {
	attempt, _ := strconv.Atoi(r.Header.Get("X-Aqueduct-Attempt")) // 0 is a fault that the checks find
	c := call{attempt: attempt, keyHash: r.Header.Get("X-Aqueduct-Idempotency-Key-Hash")}
	w.serve(rw, r, &c, r.Header.Get("X-Aqueduct-Job-Id"))
}

func (w *world) serveReceiver(rw http.ResponseWriter, r *http.Request) {
	w.serve(rw, r, &call{delivery: r.Header.Get("X-Aqueduct-Delivery-Id")}, "")
}

// serve writes a request down and answers it. A delivery names its job in its body.
func (w *world) serve(rw http.ResponseWriter, r *http.Request, c *call, id string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node died while it wrote
	}
	c.life, c.body = r.Header.Get("X-Aqueduct-Node-Id"), string(body)
	delivery := id == ""
	if delivery {
		var result struct {
			JobID string `json:"job_id"`
		}
		_ = json.Unmarshal(body, &result) // a body without a job is a fault that the checks find
		id = result.JobID
	}
	meet := w.note(r.URL.Path, c, id, delivery)
	if meet != nil {
		meet(r, delivery)
	}
	if strings.HasPrefix(r.URL.Path, "/slow") {
		wait(r, 150*time.Millisecond)
	}
	rw.Header().Set("Content-Type", "text/plain")
	rw.WriteHeader(c.status)
	_, _ = rw.Write(body)
}

func (w *world) note(path string, c *call, id string, delivery bool) func(*http.Request, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	book := w.calls
	if delivery {
		book = w.deliveries
	}
	c.status = reply(path, len(book[id]))
	book[id] = append(book[id], *c)
	return w.meet
}

// reply is the status for the next request about a job after so many earlier ones.
func reply(path string, earlier int) int {
	if strings.HasPrefix(path, "/flaky") && earlier == 0 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// wait waits as long as somebody waits for the answer.
func wait(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
