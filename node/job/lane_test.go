package job_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestTargetOf(t *testing.T) {
	for raw, want := range map[string]string{
		"http://api.example/v1":         "http://api.example",
		"HTTPS://API.example:8443/v1?q": "https://api.example:8443",
		"http://[::1]:9000/":            "http://[::1]:9000",
		"http://api.example:80":         "http://api.example",
		"https://api.example:443/":      "https://api.example",
		"http://api.example:443/":       "http://api.example:443",
		"https://api.example:80/":       "https://api.example:80",
		"http://API.example.:0080/v1":   "http://api.example",
		"http://api.example:?q":         "http://api.example",
		"http://127.1:9000/":            "http://127.0.0.1:9000",
		"http://0x7f000001":             "http://127.0.0.1",
		"http://2130706433#":            "http://127.0.0.1",
		"http://[::ffff:7f00:1]:80/":    "http://127.0.0.1",
		"https://[0:0::1]:0443/":        "https://[::1]",
		"":                              "",
		"/v1":                           "",
	} {
		if got := job.TargetOf(raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

func TestTargetOfTheUsualAllocatesNothing(t *testing.T) {
	for _, raw := range []string{"http://api.example/v1", "https://api.example:8443/v1?q", "http://127.0.0.1:9000/"} {
		if n := testing.AllocsPerRun(100, func() { job.TargetOf(raw) }); n != 0 {
			t.Errorf("%q: %v allocations", raw, n)
		}
	}
}

func TestHostOfALane(t *testing.T) {
	for target, want := range map[string]string{
		"https://api.example:8443": "api.example:8443", "http://[::1]": "[::1]", "http://api.example:443": "api.example", "": "",
	} {
		if got := (job.Lane{Target: target}).Host(); got != want {
			t.Errorf("%q: got %q", target, got)
		}
	}
}

// Whatever host[:port] a URL has, the configuration and the interface find its target under it.
func TestATargetIsFoundUnderTheHostOfItsURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]string{"http", "https", "HTTP", "Https"}).Draw(t, "scheme")
		at := rapid.SampledFrom([]string{"api.example", "API.Example.", "127.1", "0x7f.1", "[::FFFF:127.0.0.1]", "[0::1]", "2130706433"}).Draw(t, "host") +
			rapid.SampledFrom([]string{"", ":", ":80", ":443", ":0443", ":00080", ":8080", ":1"}).Draw(t, "port")
		raw := scheme + "://" + at + rapid.SampledFrom([]string{"", "/", "/V1?q=://x", "?q", "#f"}).Draw(t, "rest")
		target := job.TargetOf(raw)
		if again := job.TargetOf(target); again != target {
			t.Fatalf("%q is %q, which is %q", raw, target, again)
		}
		host := (job.Lane{Target: target}).Host()
		if host != job.HostOf(at) || job.HostOf(host) != host {
			t.Fatalf("%q is found under %q and asked for under %q", raw, host, job.HostOf(at))
		}
		all := job.TargetsAt(host)
		if !slices.Contains(all, target) {
			t.Fatalf("%q is not among the targets at %q: %q", target, host, all)
		}
		for _, one := range all {
			if job.TargetOf(one) != one || (job.Lane{Target: one}).Host() != host {
				t.Fatalf("at %q there is said to be %q", host, one)
			}
		}
	})
}

func TestHosts(t *testing.T) {
	for _, good := range []string{"api.example", "API.example.:8443", "a_b", "0x7f.1", "127.1", "[::1]", "[::1]:9000", "localhost:1"} {
		if !job.ValidHost(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{
		"", ":80", "http://api.example", "api.example/v1", "u@api.example", "a:b", "a:0", "a:65536", "bücher.example", "a b", "::1", "a?b", "a#b",
		"*", "*.example", "a,b", "a..b", "1.2.3.4.5", "[::1%25lo]",
		strings.Repeat("a.", 200) + "example",
	} {
		if job.ValidHost(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A tenant is a user with an API key, which is looked up without regard to case.
func TestTenants(t *testing.T) {
	of := func(user string, headers form) job.Tenant {
		r := decode(t, valid(form{"user_id": user, "headers": headers}))
		return job.TenantOf(r)
	}
	key := of("u", form{"Authorization": "k"})
	for name, same := range map[string]job.Tenant{
		"another case":            of("u", form{"AUTHORIZATION": "k"}),
		"Authorization is first":  of("u", form{"authorization": "k", "X-Api-Key": "l"}),
		"X-Api-Key":               of("u", form{"x-api-key": "k"}),
		"X-Api-Key is second":     of("u", form{"X-API-Key": "k", "Api-Key": "l"}),
		"Api-Key":                 of("u", form{"api-key": "k"}),
		"an empty one is no key":  of("u", form{"Authorization": "", "Api-Key": "k"}),
		"other headers are other": of("u", form{"Authorization": "k", "X-A": "1"}),
	} {
		if same != key {
			t.Errorf("%s: another tenant", name)
		}
	}
	for name, other := range map[string]job.Tenant{
		"another key":        of("u", form{"Authorization": "l"}),
		"no key":             of("u", nil),
		"another user":       of("v", form{"Authorization": "k"}),
		"joined differently": of("uk", nil),
	} {
		if other == key {
			t.Errorf("%s: the same tenant", name)
		}
	}
}

// The result of a job waits apart from the calls to the same host.
func TestLanesOfAJob(t *testing.T) {
	j := job.Job{Request: *decode(t, valid(form{"url": "https://A.example/x", "webhook_url": "http://b.example:81/y"}))}
	if call, hook := j.Lane(), j.WebhookLane(); call.Target != "https://a.example" || hook.Target != "http://b.example:81" || call.Tenant != hook.Tenant {
		t.Errorf("got %+v and %+v", call, hook)
	}
}

func TestOrderKeysSortLikeOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := job.Order(rapid.Uint64().Draw(t, "a")), job.Order(rapid.Uint64().Draw(t, "b"))
		if (a < b) != (bytes.Compare(a.AppendKey([]byte("p")), b.AppendKey([]byte("p"))) < 0) {
			t.Errorf("%d and %d", a, b)
		}
	})
}

func TestLinesAreNamed(t *testing.T) {
	if job.Calls.String() != "calls" || job.Deliveries.String() != "deliveries" || job.Line(0).String() != "unknown" {
		t.Error("a line has another name")
	}
}
