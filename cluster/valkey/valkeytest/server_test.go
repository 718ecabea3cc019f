package valkeytest_test

import (
	"net"
	"testing"
	"time"

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

// TestAPortThatIsTakenForAMoment: a server waits for it.
func TestAPortThatIsTakenForAMoment(t *testing.T) {
	s := valkeytest.Start(t)
	s.Do("SET", "k", "v")
	s.Kill()
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() { l.Close() })
	s.Restart()
	if got := s.Get("k"); got != "" {
		t.Errorf("a server that keeps nothing has %q", got)
	}
}
