package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// exampleWorld is what the node of the examples calls: a target and a receiver.
type exampleWorld struct {
	target, receiver *httptest.Server

	mu       sync.Mutex // guards all below
	node     string     // its URL
	requests []string   // in the form that they have in a document
}

func newExampleWorld(t *testing.T) *exampleWorld {
	w := &exampleWorld{}
	w.target = httptest.NewServer(http.HandlerFunc(w.serveTarget))
	t.Cleanup(w.target.Close)
	w.receiver = httptest.NewServer(http.HandlerFunc(w.serveReceiver))
	t.Cleanup(w.receiver.Close)
	return w
}

// alias is a name in the documents, and what it is here.
type alias struct{ document, here string }

func (w *exampleWorld) names() []alias {
	return []alias{
		{"https://api.example.com", w.target.URL}, {"api.example.com", strings.TrimPrefix(w.target.URL, "http://")},
		{"https://app.example.com", w.receiver.URL}, {"app.example.com", strings.TrimPrefix(w.receiver.URL, "http://")},
	}
}

func (w *exampleWorld) setNode(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node = url
}

// sent returns the requests of the node so far.
func (w *exampleWorld) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[:len(w.requests):len(w.requests)]
}

func (w *exampleWorld) note(r *http.Request) (node string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(values, ", "))
	}
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, sortedHeader(strings.TrimSpace(b.String())+"\n\n"+string(body)))
	return w.node, err
}

// serveTarget is busy at the first attempt of each job at /charges and /reports; at the latter it waits
// for somebody to listen. At /limited it asks for less than it gets.
func (w *exampleWorld) serveTarget(rw http.ResponseWriter, r *http.Request) {
	node, err := w.note(r)
	if err != nil {
		return
	}
	if r.URL.Path == "/reports" {
		listened(r, node)
	}
	rw.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/limited" {
		rw.Header().Set("X-Aqueduct-Rps", "1")
	} else if r.URL.Path != "/ping" && r.Header.Get("X-Aqueduct-Attempt") == "1" {
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(rw, `{"ok": true}`)
}

// listened waits until a stream is open at the node.
func listened(r *http.Request, node string) {
	for r.Context().Err() == nil {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, node+"/metrics", nil)
		if err != nil {
			return
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if strings.Contains(string(text), "\naquifer_http_streams 1\n") {
			return
		}
	}
}

// serveReceiver takes everything but what comes to /closed.
func (w *exampleWorld) serveReceiver(rw http.ResponseWriter, r *http.Request) {
	if _, err := w.note(r); err != nil {
		return
	}
	if r.URL.Path == "/closed" {
		rw.WriteHeader(http.StatusGone)
	}
}
