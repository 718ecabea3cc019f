package api

import (
	"net/http"
	"sync"
	"time"

	"github.com/aquifer-fleet/aquifer/node/alarm"
)

// face serves a node over HTTP. Nothing in it changes but its parts that are safe for concurrent use.
type face struct {
	Config
	metrics  *metrics
	failures *alarm.Alarm
	bodies   sync.Pool // of *[]byte, see body.go
}

// endpoint answers a request and returns the status it answered with.
type endpoint func(w http.ResponseWriter, r *http.Request) int

// New returns the face of a node. It may serve before the node is ready.
func New(c Config) http.Handler {
	if c.StreamLife == 0 {
		c.StreamLife = time.Hour
	}
	f := &face{Config: c, metrics: newMetrics(c.Registerer), failures: alarm.New(c.Logger, "request failed")}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]endpoint{
		"POST /jobs":                      f.submit,
		"POST /proxy":                     f.proxy,
		"GET /jobs":                       f.list,
		"GET /jobs/{id}":                  f.twice(look.show),
		"GET /jobs/{id}/stream":           f.twice(look.stream),
		"POST /jobs/{id}/redrive":         f.twice(look.redrive),
		"POST /jobs/{id}/webhook/redrive": f.twice(look.redeliver),
		"GET /results":                    f.twice(look.result),
		"GET /targets":                    f.targets,
		"GET /targets/{host}":             f.target,
		"POST /targets/{host}/pause":      f.pause,
		"POST /targets/{host}/resume":     f.resume,
		"PUT /targets/{host}/limits":      f.setLimits,
		"GET /cluster/owner":              f.owner,
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
