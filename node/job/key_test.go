package job_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"github.com/aquifer-fleet/aquifer/node/job"
)

func wireHash(joined string) string {
	sum := sha256.Sum256([]byte(joined))
	return hex.EncodeToString(sum[:])
}

func TestWireHash(t *testing.T) {
	for want, key := range map[string]job.Key{
		wireHash("u:k"):         {UserID: "u", Name: "k"},
		wireHash("a:b:c"):       {UserID: "a:b", Name: "c"},
		wireHash("shared\x00k"): {Scope: job.ScopeShared, Name: "k"},
	} {
		if got := key.WireHash(); got != want {
			t.Errorf("%+v: got %s, want %s", key, got, want)
		}
	}
}

// Inside a node ("a", "b:c") and ("a:b", "c") are two keys, though the wire cannot tell them apart.
func TestID01_IdentityIsExact(t *testing.T) {
	one, two := job.Key{UserID: "a", Name: "b:c"}, job.Key{UserID: "a:b", Name: "c"}
	if one.WireHash() != two.WireHash() {
		t.Fatal("the wire joins by a colon")
	}
	if one.Hash() == two.Hash() {
		t.Error("two keys are one")
	}
}

func TestHashTellsKeysApart(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "b", "ab", ":", "a:", ":b", "\x01a", "a\x01b", "shared"})
	keys := rapid.Custom(func(t *rapid.T) job.Key {
		return job.Key{Scope: job.Scope(rapid.IntRange(0, 1).Draw(t, "scope")), UserID: text.Draw(t, "user"), Name: text.Draw(t, "name")}
	})
	rapid.Check(t, func(t *rapid.T) {
		if a, b := keys.Draw(t, "a"), keys.Draw(t, "b"); (a == b) != (a.Hash() == b.Hash()) {
			t.Errorf("%+v and %+v", a, b)
		}
	})
}

// In shared scope all users have one key; each user's own keys are apart from it.
func TestKeyOfARequest(t *testing.T) {
	a := job.Request{UserID: "a", KeyName: "k", Scope: job.ScopeShared}
	b := job.Request{UserID: "b", KeyName: "k", Scope: job.ScopeShared}
	own := job.Request{UserID: "a", KeyName: "k"}
	if a.Key() != b.Key() {
		t.Error("two users have two shared keys")
	}
	if a.Key() == own.Key() || a.Key().Hash() == own.Key().Hash() || a.Key().WireHash() == own.Key().WireHash() {
		t.Error("the shared key is also a user's own")
	}
}

func TestID02_PayloadSeesWhatIsSent(t *testing.T) {
	base := form{"headers": form{"X-A": "1", "X-B": "2"}, "body": `{"a":1}`}
	of := func(changes form) job.PayloadHash {
		all := form{}
		for _, f := range []form{base, changes} {
			for name, value := range f {
				all[name] = value
			}
		}
		return decode(t, valid(all)).Payload()
	}
	first := of(nil)
	for name, change := range map[string]form{
		"the method":            {"method": "PUT"},
		"the URL":               {"url": "http://api.example/v2"},
		"the pool":              {"url": nil, "pool_id": "http://api.example/v1"},
		"spacing in the body":   {"body": `{"a": 1}`},
		"no body":               {"body": nil},
		"a header's value":      {"headers": form{"X-A": "2", "X-B": "2"}},
		"a header less":         {"headers": form{"X-A": "1"}},
		"values changed places": {"headers": form{"X-A": "2", "X-B": "1"}},
	} {
		if of(change) == first {
			t.Errorf("%s does not count", name)
		}
	}
	for name, change := range map[string]form{
		"the case of a header's name": {"headers": form{"x-b": "2", "x-A": "1"}},
		"the case of the method":      {"method": "post"},
		"the same body in base64":     {"body": nil, "body_base64": "eyJhIjoxfQ=="},
		"the user":                    {"user_id": "v"},
		"the key":                     {"idempotent_key": "l"},
		"the webhook":                 {"webhook_url": "http://other.example/"},
		"how often it is tried":       {"max_retries": 1, "timeout_ms": 5, "execute_before": 9},
	} {
		if of(change) != first {
			t.Errorf("%s counts", name)
		}
	}
}

// A body that reads like encoded headers is still not headers.
func TestID02_PayloadIsExact(t *testing.T) {
	headers := job.Request{Method: "POST", URL: "http://a/", Headers: []job.Header{{Name: "A", Value: "b"}}}
	body := job.Request{Method: "POST", URL: "http://a/", Body: []byte("\x01A\x01b")}
	if headers.Payload() == body.Payload() {
		t.Error("a body passes for headers")
	}
}
