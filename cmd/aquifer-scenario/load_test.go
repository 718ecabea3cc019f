package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBalancerTakesTurnsAmongThoseThatAreReady(t *testing.T) {
	b := newBalancer(http.DefaultClient)
	for _, n := range []place{"n1", "n2", "n3"} {
		b.add(entrance{node: n})
		b.ready[n] = n != "n2"
	}
	seen := map[place]int{}
	for range 10 {
		seen[b.pick().node]++
	}
	if seen["n1"] != 5 || seen["n2"] != 0 || seen["n3"] != 5 {
		t.Errorf("%v", seen)
	}
	b.ready = map[place]bool{}
	for range 9 {
		seen[b.pick().node]++
	}
	if seen["n2"] == 0 {
		t.Error("if none is ready, some are never tried")
	}
}

func TestBalancerAsksWhetherANodeIsReady(t *testing.T) {
	ready := true
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" || !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer node.Close()
	b := newBalancer(node.Client())
	e := entrance{node: "n1", url: node.URL}
	for _, want := range []bool{true, false} {
		ready = want
		b.check(t.Context(), e)
		if b.ready["n1"] != want {
			t.Errorf("ready is %v", !want)
		}
	}
	node.Close()
	b.check(t.Context(), e)
	if b.ready["n1"] {
		t.Error("a node that is gone is ready")
	}
}

// A client sends the same job until it is acknowledged, whatever it is answered, and each refusal is counted.
func TestClientsInsist(t *testing.T) {
	var bodies []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch bodies = append(bodies, string(body)); len(bodies) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"not now"}`))
		case 2:
			_, _ = w.Write([]byte(`{"job_id":`))
		default:
			w.Header().Set("X-Aquifer-Cluster-Owner", "n2")
			_, _ = w.Write([]byte(`{"job_id":"j"}`))
		}
	}))
	defer node.Close()
	l := &load{target: "http://target", receiver: "http://receiver", http: node.Client(), ledger: newLedger(), balancer: newBalancer(node.Client())}
	l.balancer.add(entrance{node: "n1", url: node.URL})
	l.ledger.send("k", "ada", at(0), at(0))
	l.insist(t.Context(), "k", "ada")

	if e := l.ledger.entries["k"]; e.Job != "j" || e.Owner != "n2" || e.Acked.IsZero() {
		t.Errorf("%+v", e)
	}
	if f := l.ledger.failed; f["503 not now"] != 1 || f["broken answer"] != 1 || len(f) != 2 {
		t.Errorf("refusals %v", f)
	}
	var sent struct {
		User    string `json:"user_id"`
		Key     string `json:"idempotent_key"`
		URL     string `json:"url"`
		Webhook string `json:"webhook_url"`
	}
	if err := json.Unmarshal([]byte(bodies[0]), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.User != "ada" || sent.Key != "k" || sent.URL != "http://target/?key=k" || sent.Webhook != "http://receiver/?key=k" {
		t.Errorf("%+v", sent)
	}
	if len(bodies) != 3 || strings.Join(bodies, "") != strings.Repeat(bodies[0], 3) {
		t.Errorf("sent %q", bodies)
	}
}
