package api

import (
	"net/http"
	"sync"
	"time"
)

// face serves a node over HTTP. Nothing in it changes but its parts that are safe for concurrent use.
type face struct {
	Config
	metrics  *metrics
	failures failures
	bodies   sync.Pool // of *[]byte, see body.go
}

// endpoint answers a request and returns the status it answered with.
type endpoint func(w http.ResponseWriter, r *http.Request) int

// New returns the face of a node. It may serve before the node is ready.
func New(c Config) http.Handler {
	if c.StreamLife == 0 {
		c.StreamLife = time.Hour
	}
	f := &face{Config: c, metrics: newMetrics(c.Registerer), failures: failures{log: c.Logger}}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]endpoint{
		"POST /jobs":                      f.submit,
		"GET /jobs":                       f.list,
		"GET /jobs/{id}":                  f.show,
		"GET /jobs/{id}/stream":           f.stream,
		"POST /jobs/{id}/redrive":         f.redrive,
		"POST /jobs/{id}/webhook/redrive": f.redeliver,
		"GET /health":                     f.health,
		"GET /ready":                      f.ready,
	} {
		mux.HandleFunc(pattern, f.metrics.count(pattern, serve))
	}
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	return mux
}
