package egress

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *asTarget {
		_ = serveTarget()
		return
	}
	goleak.VerifyTestMain(m)
}
