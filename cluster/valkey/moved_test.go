package valkey_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster"
	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// host is a node that forwards requests, and answers its own with its id.
type host struct {
	*node
	url string
}

// newHost starts a node that hears of the others by itself only when it starts.
func newHost(t *testing.T, s *valkeytest.Server, id string) *host {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	self := member(id, 10)
	self.Address = server.URL
	n := start(t, seldom(t, s, self))
	n.await("settled", func(r *cluster.Roster) bool { return r.Unsettled == nil })
	transport := &http.Transport{DisableKeepAlives: true}
	f := cluster.NewForwarder(cluster.ForwarderConfig{Owners: n.owners(), Transport: transport, Logger: nopLogger()})
	mux.Handle("/", cluster.NewGate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.ToOwner(w, r, cluster.Call{Key: "u"}) == 0 {
			_, _ = io.WriteString(w, id)
		}
	}), cluster.GateConfig{Logger: nopLogger()}))
	return &host{n, server.URL}
}

// goesTo expects that a request of tenant u is answered by a node.
func (h *host) goesTo(want string) {
	h.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(h.url, "text/plain", http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != want {
		h.t.Errorf("%s answers %d %s, want that %s answers", h.Roster().Self.ID, resp.StatusCode, body, want)
	}
}

// gives has Valkey name another owner of tenant u, as it does when somebody asked while the last one was away.
func gives(s *valkeytest.Server, id string) {
	s.Do("SET", assignmentOf("u"), id)
}

// TestMovedMeanwhile: nodes whose memories are old come to the owner that Valkey names, whoever of them has to look again.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		knows string // whom b has in mind
		next  string // whom Valkey names then
	}{
		"to the one that asks":                          {"b", "a"},
		"to one that the one that asks does not know":   {"b", "c"},
		"to the one that is asked, which knows another": {"c", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := valkeytest.Start(t)
			b := newHost(t, s, "b")
			a := newHost(t, s, "a") // knows b
			gives(s, "b")
			if got := a.owner("u"); got != "b" {
				t.Fatal(got)
			}
			c := newHost(t, s, "c")
			if tt.knows == "c" {
				gives(s, "c")
				if got := b.owner("u"); got != "c" {
					t.Fatal(got)
				}
			}
			gives(s, tt.next)
			a.goesTo(tt.next)
			c.goesTo(tt.next)
		})
	}
}

// TestMovedIsRemembered: who was told of another owner does not go the long way again.
func TestMovedIsRemembered(t *testing.T) {
	t.Parallel()
	s := valkeytest.Start(t)
	b, c := newHost(t, s, "b"), newHost(t, s, "c")
	a := newHost(t, s, "a") // knows both
	gives(s, "b")
	if got := a.owner("u"); got != "b" {
		t.Fatal(got)
	}
	gives(s, "c")
	if got := b.owner("u"); got != "c" {
		t.Fatal(got)
	}
	a.goesTo("c") // as b says
	if got := a.owner("u"); got != "c" {
		t.Errorf("a still names %s", got)
	}
	c.goesTo("c")
}
