package node

import (
	"testing"
	"time"
)

func TestRemoteConfig(t *testing.T) {
	const valkey = "AQUIFER_VALKEY_URL=rediss://user:secret@valkey.example:6380/3"
	c := mustConfig(t, valkey, "AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=true", "AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=250",
		"AQUIFER_REMOTE_IDEMPOTENCY_PREFIX=k:", "AQUIFER_REMOTE_IDEMPOTENCY_TTL_SECONDS=60",
		"AQUIFER_REMOTE_RESULT_ENABLED=true", "AQUIFER_REMOTE_RESULT_PREFIX=r:", "AQUIFER_REMOTE_RESULT_MAX_BYTES=0").Remote
	want := RemoteConfig{
		IdempotencyEnabled: true, TimeoutMS: 250, IdempotencyPrefix: "k:", TTLSeconds: 60, ResultEnabled: true, ResultPrefix: "r:",
	}
	if c != want || c.Timeout() != 250*time.Millisecond || c.TTL() != time.Minute {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

// A node remembers with others if it is to, and if it tells Valkey what keys became.
func TestRemoteConfigShares(t *testing.T) {
	const valkey, sink = "AQUIFER_VALKEY_URL=valkey://valkey.example", "AQUIFER_DRAIN_SINK=valkey"
	for _, tt := range []struct {
		environ        []string
		claims, shares bool
	}{
		{nil, false, false},
		{[]string{"AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=true"}, true, true},
		{[]string{"AQUIFER_REMOTE_RESULT_ENABLED=true"}, false, true},
		{[]string{sink}, false, false},
		{[]string{sink, "AQUIFER_DRAIN_ENABLED=true"}, true, true},
		{[]string{"AQUIFER_DRAIN_ENABLED=true", "AQUIFER_DRAIN_WEBHOOK_URL=http://sink.example"}, false, false},
	} {
		c := mustConfig(t, append(tt.environ, valkey)...)
		if c.claims() != tt.claims || c.shares() != tt.shares {
			t.Errorf("%v: claims %v, shares %v", tt.environ, c.claims(), c.shares())
		}
	}
}

// Nodes that are to remember together need a place for it.
func TestRemoteConfigProblems(t *testing.T) {
	const keys, results = "AQUIFER_REMOTE_IDEMPOTENCY_ENABLED=true", "AQUIFER_REMOTE_RESULT_ENABLED=true"
	for _, tt := range []struct {
		environ []string
		says    string
	}{
		{[]string{keys}, `must be false as long as AQUIFER_VALKEY_URL is not set, got "true"`},
		{[]string{results}, `must be false as long as AQUIFER_VALKEY_URL is not set, got "true"`},
		{
			[]string{"AQUIFER_DRAIN_ENABLED=true", "AQUIFER_DRAIN_SINK=valkey"},
			`must be webhook as long as AQUIFER_VALKEY_URL is not set, got "valkey"`,
		},
		{
			[]string{keys, "AQUIFER_VALKEY_URL=http://user:secret@valkey.example"},
			`the Valkey URL must begin with redis://, rediss://, valkey:// or valkeys://, got "http"`,
		},
		{
			[]string{keys, "AQUIFER_VALKEY_URL=valkey://user:s%zecret@valkey.example"},
			"the Valkey URL cannot be read; write special characters of a password as %XX",
		},
		{[]string{"AQUIFER_REMOTE_IDEMPOTENCY_TIMEOUT_MS=0"}, `must be a whole number, 1 to 10000, got "0"`},
		{[]string{"AQUIFER_REMOTE_IDEMPOTENCY_TTL_SECONDS=0"}, `must be a whole number, 1 to 31536000, got "0"`},
		{[]string{"AQUIFER_REMOTE_RESULT_MAX_BYTES=-1"}, `must be a whole number, 0 to 16777216, got "-1"`},
	} {
		checkRefusal(t, tt.says, tt.environ...)
	}
	mustConfig(t, "AQUIFER_VALKEY_URL=valkey://valkey.example") // for others alone
}
