package job_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func TestTargetOf(t *testing.T) {
	for raw, want := range map[string]string{
		"http://api.example/v1":         "http://api.example",
		"HTTPS://API.example:8443/v1?q": "https://api.example:8443",
		"http://[::1]:9000/":            "http://[::1]:9000",
		"http://api.example:80":         "http://api.example:80",
		"":                              "",
		"/v1":                           "",
	} {
		if got := job.TargetOf(raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

func TestHostOfALane(t *testing.T) {
	for target, want := range map[string]string{"https://api.example:8443": "api.example:8443", "http://[::1]": "[::1]", "": ""} {
		if got := (job.Lane{Target: target}).Host(); got != want {
			t.Errorf("%q: got %q", target, got)
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
