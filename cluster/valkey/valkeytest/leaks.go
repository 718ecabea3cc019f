package valkeytest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and fails if they leave goroutines behind, but for one that the client of a
// Valkey Cluster leaves asleep for up to a second.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"))
}
