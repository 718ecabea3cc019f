package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aquifer-fleet/aquifer/node/job"
)

// TestMain lets the test program stand in for a node.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "standin" {
		s := &standIn{id: os.Args[3], known: make(map[string]string)}
		_ = http.ListenAndServe(os.Args[2], s.routes()) // it ends by being killed
		return
	}
	goleak.VerifyTestMain(m)
}

// standIn is a node that keeps nothing: what it has not done when it is killed is lost, and there is something to
// find.
type standIn struct {
	id string

	mu    sync.Mutex
	known map[string]string // key to id
}

// standInWait is how long a job waits before each call.
const standInWait = 200 * time.Millisecond

func (s *standIn) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"jobs":[]}`)) })
	mux.HandleFunc("POST /jobs", s.accept)
	return mux
}

func (s *standIn) accept(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Key     string `json:"idempotent_key"`
		URL     string `json:"url"`
		Webhook string `json:"webhook_url"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	id, known := s.known[ask.Key]
	if !known {
		made, _ := job.IDs{Tag: job.TagOf(s.id), Rand: rand.Reader}.New(time.Now())
		id = made.String()
		s.known[ask.Key] = id
		go s.work(id, ask.URL, ask.Webhook)
	}
	s.mu.Unlock()
	w.Header().Set("X-Aquifer-Cluster-Owner", s.id)
	_ = json.NewEncoder(w).Encode(map[string]string{"job_id": id})
}

func (s *standIn) work(id, target, webhook string) {
	for _, attempt := range []string{"1", "2"} {
		<-time.After(standInWait)
		if s.post(target, map[string]string{"X-Aqueduct-Job-Id": id, "X-Aqueduct-Attempt": attempt}, nil) == http.StatusOK {
			break
		}
	}
	body, _ := json.Marshal(map[string]string{"job_id": id, "status": "completed"})
	s.post(webhook, map[string]string{"X-Aqueduct-Delivery-Id": "webhook:" + id}, body)
}

func (s *standIn) post(url string, header map[string]string, body []byte) (status int) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("X-Aqueduct-Node-Id", s.id)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// program makes the stand-in a program that is started as a node is.
func standInProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "node")
	text := "#!/bin/sh\nexec " + self + ` standin "$AQUIFER_LISTEN" "$AQUIFER_CLUSTER_SELF_ID"` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// played is what comes of a scenario with three stand-ins, whose jobs have so long to end.
func played(t *testing.T, settle time.Duration, run func(ctx context.Context, w *world) error) outcome {
	t.Helper()
	w, err := newWorld(setup{
		node: standInProgram(t), dir: t.TempDir(), provider: "static", size: nodesAtFirst,
		times: times{warmUp: 300 * time.Millisecond, tail: 300 * time.Millisecond, settle: settle, linger: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.load.rate, w.load.users = 100, 12
	err = w.start(t.Context(), nodesAtFirst)
	var a account
	s := scenario{run: run, patience: time.Minute}
	if err == nil {
		a, err = w.play(t.Context(), s, 0)
	}
	o := conclude(s, outcome{Provider: "static", account: a}, w.noticed, errors.Join(err, w.close()))
	if len(o.Faults) > 0 && o.Lost == 0 && o.Late > lateAtMost { // nothing is lost for that
		t.Skipf("the machine is too busy to judge by: this program was %.0f ms late itself", o.Late)
	}
	return o
}

// crashWithWork kills the second node when it has acknowledged a job that it has not called for yet.
func crashWithWork(ctx context.Context, w *world, volumeLost bool) error {
	m := w.members[1]
	for !w.ledger.owes(m.id) {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return w.crash(ctx, m, 100*time.Millisecond, volumeLost)
}

func (l *ledger) owes(node place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.order, func(e *entry) bool { return e.Owner == node && len(e.Calls) == 0 })
}

func TestAFleetThatKeepsItsPromises(t *testing.T) {
	o := played(t, time.Minute, func(ctx context.Context, _ *world) error { return pause(ctx, 200*time.Millisecond) })
	if !o.Passed || o.Completed == 0 || o.Completed != o.Sent {
		t.Errorf("%+v", o)
	}
}

func TestAFleetThatLosesWhatItHasAcknowledged(t *testing.T) {
	o := played(t, 3*time.Second, func(ctx context.Context, w *world) error { // which what is lost does not
		return crashWithWork(ctx, w, false)
	})
	if o.Passed || o.Lost == 0 || o.Completed+o.Lost != o.Sent || !strings.Contains(strings.Join(o.Faults, "\n"), "accepted by n2") {
		t.Errorf("%+v", o)
	}
}

func TestAFleetThatLosesAVolume(t *testing.T) {
	o := played(t, time.Minute, func(ctx context.Context, w *world) error {
		return crashWithWork(ctx, w, true)
	})
	if !o.Passed || o.LostWithVolume == 0 || o.Completed+o.LostWithVolume != o.Sent {
		t.Errorf("%+v", o)
	}
}
