package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
)

// A member is asked, and its word comes back; who does not say anything that is known has said nothing.
func TestAskAssent(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		asker, other := w.nodes["node-0"].forwarder, w.nodes["node-1"]
		m, _ := w.fleet.View("node-0").Roster().Member("node-1")
		for _, want := range []cluster.Assent{cluster.Assented, cluster.Objected, cluster.Left} {
			other.answerWith(cluster.NewAssents(func() cluster.Assent { return want }).ServeHTTP)
			if got, err := asker.AskAssent(t.Context(), m); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
		for name, handler := range map[string]http.HandlerFunc{
			"an older node":   http.NotFound,
			"another program": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("welcome")) },
			"what none says":  func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(cluster.Refused)) },
		} {
			other.answerWith(handler)
			if got, err := asker.AskAssent(t.Context(), m); err == nil {
				t.Errorf("%s: %q", name, got)
			}
		}
		other.sever()
		if got, err := asker.AskAssent(t.Context(), m); err == nil {
			t.Errorf("nobody is heard of: %q", got)
		}
		other.setDial(func(context.Context) error { return errors.Join(errors.New("dial"), syscall.ECONNREFUSED) })
		if got, err := asker.AskAssent(t.Context(), m); got != cluster.Refused || err != nil {
			t.Errorf("nobody listens: %q, %v", got, err)
		}
	})
}

func TestOnlyPeersAreGivenAnAssent(t *testing.T) {
	given := false
	handler := cluster.NewAssents(func() cluster.Assent { given = true; return cluster.Assented })
	for name, h := range map[string]http.Handler{
		"without a gate": handler, "through a gate": cluster.NewGate(handler, cluster.GateConfig{Seal: seal(t, "b", secret)}),
	} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, cluster.AssentPath, http.NoBody)
		r.Header.Set("X-Aquifer-Peer", "a")
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusForbidden || given {
			t.Errorf("%s: %d", name, rec.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, cluster.AssentPath, http.NoBody)
	seal(t, "a", secret).Sign(r, "b", nil)
	rec := httptest.NewRecorder()
	cluster.NewGate(handler, cluster.GateConfig{Seal: seal(t, "b", secret)}).ServeHTTP(rec, r)
	if rec.Code != http.StatusMethodNotAllowed || given || !strings.Contains(rec.Body.String(), "POST") {
		t.Errorf("with GET: %d %s", rec.Code, rec.Body)
	}
}
