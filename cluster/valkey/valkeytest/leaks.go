package valkeytest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and fails if they leave goroutines behind, but for one that the client of a
// Valkey Cluster leaves asleep for up to a second. As such tests do little but wait, more of them run at a time than there
// are processors, unless the command line says how many.
func Main(m *testing.M) {
	_ = flag.Set("test.parallel", "6")
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"))
}
