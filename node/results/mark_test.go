package results_test

import (
	"testing"

	"github.com/aquifer-fleet/aquifer/cluster/valkey/valkeytest"
)

// A process notices that Valkey has lost what it was told, by whatever way, and not what other processes do.
func TestLost(t *testing.T) {
	t.Parallel()
	s, a, b := pair(t)
	lost := func(n *node, want bool) {
		t.Helper()
		if got, err := n.Lost(t.Context()); got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	lost(a, true) // it has told nothing yet
	lost(a, false)
	names, err := s.Do("KEYS", "aqueduct:idempotency:mark:*").AsStrSlice()
	if err != nil || len(names) != 1 {
		t.Fatalf("marks %q, %v", names, err)
	}
	if left, _ := s.Do("TTL", names[0]).AsInt64(); left < 3500 || left > 3600 {
		t.Errorf("the mark is kept for %d s", left)
	}
	before := s.Get(names[0])
	lost(b, true)
	lost(a, false)
	s.Do("FLUSHALL")
	lost(a, true)
	lost(a, false)
	lost(b, true)
	s.Do("SET", names[0], before) // as it was in an old snapshot
	lost(a, true)
	lost(a, false)
	s.Kill()
	if _, err := a.Lost(t.Context()); err == nil {
		t.Error("a Valkey that is gone has answered")
	}
	s.Restart()
	valkeytest.Until(t, func() error {
		got, err := a.Lost(t.Context())
		if err == nil && !got {
			t.Error("a Valkey that came back empty has lost nothing")
		}
		return err
	})
	lost(a, false)
}

// A mark whose answer did not come is no loss.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	var marks []string
	s := valkeytest.NewStub(t, func(command []string) string {
		if command[0] != "SET" {
			return valkeytest.Error("ERR unknown")
		}
		marks = append(marks, command[2])
		switch len(marks) {
		case 1:
			return "$-1\r\n"
		case 2: // it has been set
			return valkeytest.Error("ERR too late")
		default:
			return "$1\r\n" + marks[len(marks)-2] + "\r\n"
		}
	})
	n := start(t, config(s.URL(), "a"))
	for i, want := range []bool{true, false, false, false} {
		got, err := n.Lost(t.Context())
		if got != want || (err != nil) != (i == 1) {
			t.Errorf("call %d: got %v, %v, want %v", i, got, err, want)
		}
	}
}
