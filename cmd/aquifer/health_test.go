package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestHealthTellsByItsExitCode(t *testing.T) {
	node := func(health, ready http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			map[string]http.HandlerFunc{"/health": health, "/ready": ready}[r.URL.Path](w, r)
		}
	}
	ok, takes := answer(200, `{"status":"ok"}`), answer(200, `{"status":"ready"}`)
	draining, full := answer(200, `{"status":"draining"}`), answer(503, `{"error":"the disk is full"}`, "Retry-After", "5")
	broken := answer(500, `{"error":"internal error"}`)
	const why = "aquifer: the node refuses the request for now: the disk is full; try again in 5 s\n"
	for _, tt := range []struct {
		name          string
		h             http.HandlerFunc
		health, ready outcome
	}{
		{"well", node(ok, takes), outcome{exitDone, "ok\n", ""}, outcome{exitDone, "ready\n", ""}},
		{"stopping", node(draining, full), outcome{exitDone, "draining\n", ""}, outcome{exitFailed, "", why}},
		{"full", node(ok, full), outcome{exitDone, "ok\n", ""}, outcome{exitFailed, "", why}},
		{
			"broken", node(broken, broken), outcome{exitFailed, "", "aquifer: GET /health: status 500: internal: internal error\n"},
			outcome{exitFailed, "", "aquifer: GET /ready: status 500: internal: internal error\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := against(t, tt.h, "", "health"); got != tt.health {
				t.Errorf("health: %+v, want %+v", got, tt.health)
			}
			if got := against(t, tt.h, "", "health", "--ready"); got != tt.ready {
				t.Errorf("ready: %+v, want %+v", got, tt.ready)
			}
		})
	}
	if got := invoke("", "health", "--server", "127.0.0.1:1"); got.code != exitFailed || !strings.Contains(got.stderr, "no node answers at 127.0.0.1:1") {
		t.Errorf("nobody there: %+v", got)
	}
}
