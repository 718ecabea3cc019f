package dispatch

import (
	"slices"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/egress"
	"github.com/aquifer-fleet/aquifer/node/job"
)

// sent makes one call with these headers and returns what the target read.
func sent(t *testing.T, method, body string, headers, extra []job.Header) wire {
	t.Helper()
	tg := newTarget(t, always(okAnswer))
	d := dispatcher(t, egress.Config{}, 0)
	o, _ := d.Do(t.Context(), Call{Method: method, URL: tg.url + "/p", Headers: headers, Extra: extra, Body: []byte(body)})
	if o.Status != 200 || len(tg.requests()) != 1 {
		t.Fatalf("outcome %+v after %d requests", o, len(tg.requests()))
	}
	w := tg.requests()[0]
	w.headers = slices.DeleteFunc(w.headers, func(h string) bool { return strings.HasPrefix(h, "Host: ") })
	return w
}

func TestHD02_ConnectionHeadersAreOurs(t *testing.T) {
	w := sent(t, "POST", "twelve bytes", []job.Header{
		{Name: "connection", Value: "X-Auth, keep-alive ,close"}, {Name: "X-AUTH", Value: "secret"},
		{Name: "Host", Value: "other.test"}, {Name: "content-length", Value: "5"}, {Name: "Transfer-Encoding", Value: "chunked"},
		{Name: "TE", Value: "trailers"}, {Name: "Trailer", Value: "X"}, {Name: "Upgrade", Value: "h2c"}, {Name: "Keep-Alive", Value: "1"},
		{Name: "Proxy-Authorization", Value: "x"}, {Name: "proxy-connection", Value: "x"}, {Name: "HTTP2-Settings", Value: "x"},
		{Name: "Expect", Value: "100-continue"}, {Name: "X-Kept", Value: "1"},
	}, nil)
	want := []string{"Content-Length: 12", "User-Agent: aquifer", "X-Kept: 1", "endpoint-load-metrics-format: text"}
	if !slices.Equal(w.headers, want) || w.line != "POST /p HTTP/1.1" || w.body != "twelve bytes" {
		t.Errorf("target read %+v, want headers %q", w, want)
	}
}

func TestHD02_IllegalHeaderEndsTheJob(t *testing.T) {
	tg := newTarget(t, always(okAnswer))
	d := dispatcher(t, egress.Config{}, 0)
	for _, c := range []Call{
		{Method: "POST", URL: tg.url, Headers: []job.Header{{Name: "X", Value: "a\r\nInjected: 1"}}},
		{Method: "POST", URL: tg.url, Headers: []job.Header{{Name: "X Y", Value: "a"}}},
		{Method: "PO ST", URL: tg.url},
		{Method: "POST", URL: "http://[bad"},
		{Method: "POST", URL: "gopher://x.test/"},
	} {
		o, s := d.Do(t.Context(), c)
		if o.Class != job.Internal || o.Retryable() || !o.NoRetry || o.MaybeExecuted || o.Canceled() || s.Failed || o.Reason() == "" {
			t.Errorf("%s %q %v: %+v, %+v", c.Method, c.URL, c.Headers, o, s)
		}
	}
	if n := len(tg.requests()); n != 0 {
		t.Errorf("target read %d requests", n)
	}
}

func TestCallersSpellingIsKept(t *testing.T) {
	w := sent(t, "DELETE", "", []job.Header{
		{Name: "x-lower", Value: "1"}, {Name: "X-UPPER", Value: "2"}, {Name: "x-MiXed", Value: "a,b  c"}, {Name: "user-agent", Value: "mine"},
		{Name: "Accept-Encoding", Value: "br"}, {Name: "Endpoint-Load-Metrics-Format", Value: "json"}, {Name: "Cookie", Value: "c=1"},
	}, nil)
	want := []string{
		"Accept-Encoding: br", "Cookie: c=1", "Endpoint-Load-Metrics-Format: json", "X-UPPER: 2", "user-agent: mine", "x-MiXed: a,b  c", "x-lower: 1",
	}
	if !slices.Equal(w.headers, want) || w.line != "DELETE /p HTTP/1.1" {
		t.Errorf("target read %q %q, want %q", w.line, w.headers, want)
	}
}

func TestOurHeadersWin(t *testing.T) {
	w := sent(t, "GET", "", []job.Header{
		{Name: "x-aqueduct-flow-rate", Value: "99"}, {Name: "X-AQUIFER-JOB-ID", Value: "forged"}, {Name: "X-Aqueduct-Other", Value: "kept"},
		{Name: "User-Agent", Value: "curl/8"},
	}, Headers(Identity{NodeID: "n1", JobID: "0123", Attempt: 2, KeyHash: "ab"}, Load{TotalJobs: 7, QueueDepth: 6, FlowRate: 2.5, ActiveQueues: 3, UpstreamBacklog: 5}))
	want := []string{
		"User-Agent: curl/8",
		"X-Aqueduct-Active-Queues: 3", "X-Aqueduct-Attempt: 2", "X-Aqueduct-Flow-Rate: 2.50", "X-Aqueduct-Idempotency-Key-Hash: ab",
		"X-Aqueduct-Job-Id: 0123", "X-Aqueduct-Node-Id: n1", "X-Aqueduct-Other: kept", "X-Aqueduct-Queue-Depth: 6",
		"X-Aqueduct-Total-Jobs: 7", "X-Aqueduct-Upstream-Backlog: 5",
		"X-Aquifer-Active-Queues: 3", "X-Aquifer-Attempt: 2", "X-Aquifer-Flow-Rate: 2.50", "X-Aquifer-Idempotency-Key-Hash: ab",
		"X-Aquifer-Job-Id: 0123", "X-Aquifer-Node-Id: n1", "X-Aquifer-Queue-Depth: 6", "X-Aquifer-Total-Jobs: 7", "X-Aquifer-Upstream-Backlog: 5",
		"endpoint-load-metrics-format: text",
	}
	if !slices.Equal(w.headers, want) {
		t.Errorf("target read %q, want %q", w.headers, want)
	}
}

func TestHeadersLeaveOutWhatIsNotSet(t *testing.T) {
	got := Headers(Identity{NodeID: "n"}, Load{})
	for _, h := range got {
		if strings.HasSuffix(h.Name, "-Job-Id") || strings.HasSuffix(h.Name, "-Attempt") || strings.HasSuffix(h.Name, "-Hash") {
			t.Errorf("header %v of a delivery", h)
		}
	}
	if len(got) != 12 {
		t.Errorf("%d headers, want 12", len(got))
	}
	if i := slices.IndexFunc(got, func(h job.Header) bool { return h.Name == "X-Aqueduct-Flow-Rate" }); got[i].Value != "0.00" {
		t.Errorf("flow rate is %q", got[i].Value)
	}
}

func FuzzFields(f *testing.F) {
	f.Add("Connection", "X-A, b", "x-a", "1")
	f.Add("User-agent", "", "TE", "x")
	f.Add("Proxy-", "", "X-Aqueduct-Total-Jobs", "9")
	f.Add("connection", ",, ,", "Keep-Alive", "")
	extra := Headers(Identity{NodeID: "n"}, Load{})
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		var sent []job.Header
		for name, value := range (fields{[]job.Header{{Name: name1, Value: value1}, {Name: name2, Value: value2}}, extra}).each {
			sent = append(sent, job.Header{Name: name, Value: value})
			if egress.OfConnection(name) {
				t.Fatalf("%q goes out", name)
			}
			if i := slices.IndexFunc(extra, func(x job.Header) bool { return fold(x.Name, name) }); i >= 0 && extra[i].Value != value {
				t.Fatalf("%q is %q", name, value)
			}
		}
		for _, name := range []string{userAgent, orcaHeader} {
			if !has(sent, name) {
				t.Fatalf("no %s goes out", name)
			}
		}
		for i := range sent { // who stops early is asked for no more
			n := 0
			(fields{[]job.Header{{Name: name1, Value: value1}, {Name: name2, Value: value2}}, extra}).each(func(string, string) bool { n++; return n <= i })
			if n != i+1 {
				t.Fatalf("stopped after %d of %d, got %d", i, len(sent), n)
			}
		}
	})
}
