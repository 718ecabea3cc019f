//go:build !race

package valkey_test

// balanced is how many tenants TestBalance places.
const balanced = 100_000
