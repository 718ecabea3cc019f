package cluster_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aquifer-fleet/aquifer/cluster"
)

const secret = "sixteen bytes or more"

func seal(t testing.TB, self string, secrets ...string) cluster.Seal {
	t.Helper()
	s, err := cluster.NewSeal(self, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// behind is what a handler behind a gate sees of a request.
type behind struct {
	status  int
	answer  http.Header
	called  bool
	hop     cluster.Hop
	isHop   bool
	body    string
	header  http.Header
	refused float64
}

// through sends a request through the gate of the node b.
func through(t testing.TB, s cluster.Seal, r *http.Request) behind {
	t.Helper()
	var got behind
	reg := prometheus.NewPedanticRegistry()
	gate := cluster.NewGate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.called, got.header = true, r.Header
		got.hop, got.isHop = cluster.HopOf(r)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got.body = string(body)
	}), cluster.GateConfig{Seal: s, MaxBodyBytes: 100, Logger: slog.New(slog.DiscardHandler), Registerer: reg})
	w := httptest.NewRecorder()
	gate.ServeHTTP(w, r)
	got.status, got.answer = w.Code, w.Result().Header
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got.refused += m.GetCounter().GetValue()
		}
	}
	return got
}

// request is one that node a would send to node b, sealed if sign is not nil.
func request(body string, sign func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://b/jobs/x%2Fy?q=1", strings.NewReader(body))
	r.Header.Set("X-Aquifer-Cluster-Forwarded", "true")
	r.Header.Set("X-Aquifer-Cluster-Tried", "c,d")
	r.Header.Set("X-Client", "kept")
	if sign != nil {
		sign(r)
	}
	return r
}

func TestSealedRequestsAreBelieved(t *testing.T) {
	from, to := seal(t, "a", secret), seal(t, "b", secret)
	for _, receiver := range []string{"b", ""} {
		got := through(t, to, request("body", func(r *http.Request) { from.Sign(r, receiver, []byte("body")) }))
		if got.status != 200 || !got.isHop || !got.hop.Sealed || got.hop.From != "a" || !got.hop.Forwarded || !got.hop.Decide {
			t.Errorf("%+v", got)
		}
		if !slices.Equal(got.hop.Tried, []string{"c", "d"}) || got.body != "body" {
			t.Errorf("%+v", got)
		}
		if len(got.header) != 1 || got.header.Get("X-Client") != "kept" {
			t.Errorf("behind the gate: %v", got.header)
		}
	}
}

func TestSealsThatAreWrong(t *testing.T) {
	good := seal(t, "a", secret)
	sign := func(r *http.Request) { good.Sign(r, "b", []byte("body")) }
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { sign(r); r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		seal   func(*http.Request)
		reason string
	}{
		"another secret":     {func(r *http.Request) { seal(t, "a", secret+"!").Sign(r, "b", []byte("body")) }, "broken"},
		"no signature":       {set("X-Aquifer-Peer-Signature", "v1="), "broken"},
		"not hexadecimal":    {set("X-Aquifer-Peer-Signature", "v1=zz"), "broken"},
		"no version":         {set("X-Aquifer-Peer-Signature", strings.Repeat("00", 32)), "broken"},
		"for another node":   {func(r *http.Request) { good.Sign(r, "c", []byte("body")) }, "not_for_us"},
		"receiver changed":   {set("X-Aquifer-Peer-To", ""), "broken"},
		"sender changed":     {set("X-Aquifer-Peer", "z"), "broken"},
		"time changed":       {set("X-Aquifer-Peer-Time", "0"), "broken"},
		"hop changed":        {set("X-Aquifer-Cluster-Forwarded", "no"), "broken"},
		"hop taken away":     {func(r *http.Request) { sign(r); r.Header.Del("X-Aquifer-Cluster-Forwarded") }, "broken"},
		"tried changed":      {set("X-Aquifer-Cluster-Tried", "b"), "broken"},
		"method changed":     {func(r *http.Request) { sign(r); r.Method = http.MethodPut }, "broken"},
		"path changed":       {func(r *http.Request) { sign(r); r.URL.Path, r.URL.RawPath = "/jobs/x/y", "" }, "broken"},
		"query changed":      {func(r *http.Request) { sign(r); r.URL.RawQuery = "q=2" }, "broken"},
		"body changed":       {func(r *http.Request) { good.Sign(r, "b", []byte("other")) }, "body"},
		"hash changed":       {set("X-Aquifer-Peer-Body", "00"), "broken"},
		"all but empty":      {func(r *http.Request) { r.Header.Set("X-Aquifer-Peer-Signature", "x") }, "broken"},
		"body and signature": {func(r *http.Request) { good.Sign(r, "b", nil) }, "body"},
	} {
		got := through(t, seal(t, "b", secret), request("body", c.seal))
		if got.called || got.status != 401 || got.answer.Get("X-Aquifer-Peer-Refused") != c.reason || got.refused != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSealsAreForNow(t *testing.T) {
	for _, c := range []struct {
		after    time.Duration
		believed bool
	}{{0, true}, {30 * time.Second, true}, {30*time.Second + time.Millisecond, false}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			r := request("", func(r *http.Request) { seal(t, "a", secret).Sign(r, "b", nil) })
			time.Sleep(c.after)
			if got := through(t, seal(t, "b", secret), r); got.called != c.believed {
				t.Errorf("after %v: %+v", c.after, got)
			}
		})
	}
}

// A node whose clock is ahead is as wrong as one whose clock is behind.
func TestSealsFromTheFuture(t *testing.T) {
	for _, c := range []struct {
		ahead    time.Duration
		believed bool
	}{{5 * time.Second, true}, {31 * time.Second, false}} {
		var r *http.Request
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(c.ahead)
			r = request("", func(r *http.Request) { seal(t, "a", secret).Sign(r, "b", nil) })
			r = r.WithContext(context.Background())
		})
		synctest.Test(t, func(t *testing.T) {
			if got := through(t, seal(t, "b", secret), r); got.called != c.believed {
				t.Errorf("%v ahead: %+v", c.ahead, got)
			}
		})
	}
}

func TestNobodyElseIsAPeer(t *testing.T) {
	got := through(t, seal(t, "b", secret), request("body", nil))
	if !got.called || got.isHop || got.body != "body" || len(got.header) != 1 {
		t.Errorf("%+v", got)
	}
	plain := httptest.NewRequest(http.MethodGet, "/jobs/x", http.NoBody)
	if got := through(t, seal(t, "b", secret), plain); !got.called || got.isHop {
		t.Errorf("%+v", got)
	}
}

func TestWithoutASecretAllAreBelieved(t *testing.T) {
	var open cluster.Seal
	for name, sign := range map[string]func(*http.Request){
		"unsealed": nil,
		"sealed":   func(r *http.Request) { seal(t, "a", secret).Sign(r, "c", nil) },
		"unproven": func(r *http.Request) { seal(t, "a").Sign(r, "b", nil) },
	} {
		got := through(t, open, request("body", sign))
		if !got.called || !got.isHop || got.hop.Sealed || !got.hop.Forwarded || got.body != "body" || len(got.header) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A node of the protocol that says no more than that it has forwarded is believed where no secret is.
func TestPlainForwardsAreAnsweredWithoutADecision(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/jobs", http.NoBody)
	r.Header.Set("X-Aquifer-Cluster-Forwarded", "true")
	got := through(t, cluster.Seal{}, r)
	if !got.isHop || !got.hop.Forwarded || got.hop.Decide || got.hop.From != "" {
		t.Errorf("%+v", got.hop)
	}
}

func TestSecretsCanBeChanged(t *testing.T) {
	const next = "another secret of the peers"
	for _, step := range []struct {
		from, to []string
		believed bool
	}{
		{[]string{secret, next}, []string{secret}, true},
		{[]string{secret}, []string{secret, next}, true},
		{[]string{next, secret}, []string{secret, next}, true},
		{[]string{next}, []string{next, secret}, true},
		{[]string{next}, []string{secret}, false},
		{[]string{next, secret}, []string{secret}, false},
	} {
		r := request("", func(r *http.Request) { seal(t, "a", step.from...).Sign(r, "b", nil) })
		if got := through(t, seal(t, "b", step.to...), r); got.called != step.believed {
			t.Errorf("from %q to %q: %+v", step.from, step.to, got)
		}
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	for _, short := range []string{"", "fifteen bytes!!"} {
		if _, err := cluster.NewSeal("a", secret, short); err == nil || !strings.Contains(err.Error(), "at least 16 bytes") {
			t.Errorf("%q: %v", short, err)
		}
	}
	if seal(t, "a").Enforced() || !seal(t, "a", secret).Enforced() {
		t.Error("a seal does not know whether it has a secret")
	}
}

func TestSealedBodiesAreBounded(t *testing.T) {
	large := strings.Repeat("x", 101)
	r := request(large, func(r *http.Request) { seal(t, "a", secret).Sign(r, "b", []byte(large)) })
	got := through(t, seal(t, "b", secret), r)
	if got.called || got.status != 413 || got.answer.Get("Connection") != "close" || got.refused != 0 {
		t.Errorf("%+v", got)
	}
	r = request(large, func(r *http.Request) { seal(t, "a", secret+"!").Sign(r, "b", []byte(large)) })
	read := false
	r.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { read = true; return 0, io.EOF }))
	if got := through(t, seal(t, "b", secret), r); got.status != 401 || read {
		t.Errorf("a body was read for a signature that is wrong: %+v", got)
	}
}

func TestSealedBodiesThatBreak(t *testing.T) {
	r := request("", func(r *http.Request) { seal(t, "a", secret).Sign(r, "b", nil) })
	r.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
	if got := through(t, seal(t, "b", secret), r); got.called || got.status != 400 {
		t.Errorf("%+v", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestNodesOfDifferentSecrets(t *testing.T) {
	change := func(id string, c *cluster.ForwarderConfig) {
		c.Seal, _ = cluster.NewSeal(id, "the secret of "+id+" alone")
	}
	inWorldOf(t, 3, change, func(t *testing.T, w *world) {
		got := w.post("node-0", w.of("node-1", "node-2"), "x").refused(t, 502)
		if !slices.Equal(got.Tried, []string{"node-1"}) || strings.Contains(fmt.Sprint(got), "secret") {
			t.Errorf("%+v", got)
		}
		w.took("x")
		if n := w.nodes["node-0"].result("distrusted"); n != 1 {
			t.Errorf("%v are counted", n)
		}
		if n := w.nodes["node-1"].counter("aquifer_peer_refused_total", "broken"); n != 1 {
			t.Errorf("%v are counted on the other side", n)
		}
	})
}

// One node that has another secret keeps nothing from being taken, while the others believe each other.
func TestANodeOfAnotherSecretIsPassedOver(t *testing.T) {
	change := func(id string, c *cluster.ForwarderConfig) {
		if id == "node-1" {
			c.Seal = seal(t, id, "a secret of its own")
		}
	}
	inWorldOf(t, 3, change, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-2")
		for _, body := range []string{"x", "y"} {
			if got := w.post("node-0", key, body); got.body != "node-2" {
				t.Errorf("answered %+v", got)
			}
		}
		if n := w.nodes["node-1"].counter("aquifer_peer_refused_total", "broken"); n != 1 {
			t.Errorf("it was asked %v times", n)
		}
		got := w.post("node-1", w.of("node-0", "node-1"), "z").refused(t, 502)
		if !slices.Equal(got.Tried, []string{"node-0"}) {
			t.Errorf("it takes what is not its own: %+v", got)
		}
		w.took("x", "node-2")
		w.took("y", "node-2")
		w.took("z")
	})
}

// A node whose own secret is wrong asks the others once a second whether they believe it, however many requests it gets,
// and finds out when it is mended.
func TestANodeThatNobodyBelievesAsksSeldom(t *testing.T) {
	change := func(id string, c *cluster.ForwarderConfig) {
		if id == "node-0" {
			c.Seal = seal(t, id, "a secret of its own")
		}
	}
	inWorldOf(t, 3, change, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-0")
		for round := range 3 {
			var posts sync.WaitGroup
			for range 20 {
				posts.Go(func() {
					if got := w.post("node-0", key, "x"); got.StatusCode != http.StatusBadGateway {
						t.Errorf("answered %d %s", got.StatusCode, got.body)
					}
				})
			}
			posts.Wait()
			w.post("node-0", key, "x").refused(t, 502)
			if n := w.nodes["node-2"].counter("aquifer_peer_refused_total", "broken"); n != float64(round+1) {
				t.Errorf("in round %v, the others were asked %v times", round, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// Only one of two nodes has a secret, so it does not know the forwards of the other, and each takes the
// other for the owner. The one without ends it.
func TestNodesOfWhichOneHasNoSecret(t *testing.T) {
	change := func(id string, c *cluster.ForwarderConfig) {
		if c.Seal = (cluster.Seal{}); id == "node-1" {
			c.Seal = seal(t, id, secret)
		}
	}
	inWorldOf(t, 2, change, func(t *testing.T, w *world) {
		key := w.of("node-1", "node-0")
		w.fleet.View("node-1").Edit(func(r *cluster.Roster) { r.Members = weighing(r.Members, "node-0"); r.Self.Capacity = 1 })
		w.post("node-0", key, "x")
		for id, h := range w.nodes {
			if n := h.count(&h.seen); n > 2 {
				t.Errorf("%s saw it %d times", id, n)
			}
		}
	})
}

func FuzzGate(f *testing.F) {
	f.Add("true", "a,b", "a", "b", "0", "v1=00", "00")
	f.Add("", "-", ",,", "\x00", "-1", "v1=", "")
	f.Fuzz(func(t *testing.T, forwarded, tried, from, to, at, signature, hash string) {
		for _, s := range []cluster.Seal{{}, seal(t, "b", secret)} {
			r := httptest.NewRequest(http.MethodPost, "/jobs", http.NoBody)
			for name, value := range map[string]string{
				"X-Aquifer-Cluster-Forwarded": forwarded, "X-Aquifer-Cluster-Tried": tried, "X-Aquifer-Peer": from,
				"X-Aquifer-Peer-To": to, "X-Aquifer-Peer-Time": at, "X-Aquifer-Peer-Signature": signature, "X-Aquifer-Peer-Body": hash,
			} {
				r.Header[name] = []string{value}
			}
			got := through(t, s, r)
			if s.Enforced() && got.isHop {
				t.Errorf("a stranger is a peer: %+v", got)
			}
			for _, id := range got.hop.Tried {
				if err := cluster.CheckID(id); err != nil {
					t.Error(err)
				}
			}
			if len(got.header) != 0 {
				t.Errorf("behind the gate: %v", got.header)
			}
		}
	})
}
