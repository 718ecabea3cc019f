//go:build race

package valkey_test

// balanced is how many tenants TestBalance places: each costs a round trip, and ten times as long under the race detector.
const balanced = 10_000
