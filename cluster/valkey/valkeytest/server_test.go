package valkeytest_test

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// TestAPortIsGivenOnce: a server that is down finds its port again, whatever other servers start meanwhile.
func TestAPortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for range 400 { // of 8000, so that some would come twice
		port := valkeytest.FreePort(t)
		if given[port] {
			t.Errorf("port %d comes twice", port)
		}
		given[port] = true
	}
}
