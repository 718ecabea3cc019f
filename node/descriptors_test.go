package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestDescriptors bounds idle connections by what the process may have open, and says when that is little.
func TestDescriptors(t *testing.T) {
	for _, test := range []struct {
		limit uint64
		idle  int
		warns bool
	}{
		{0, 0, false}, {1, 1, true}, {90, 5, true}, {4095, 255, true}, {4096, 256, false}, {1 << 63, 1<<31 - 1, false},
	} {
		var log bytes.Buffer
		n, err := New(mustConfig(t), Deps{Logger: slog.New(slog.NewTextHandler(&log, nil)), Descriptors: test.limit})
		if err != nil {
			t.Fatal(err)
		}
		n.warnOfDescriptors()
		if warns := strings.Contains(log.String(), "ulimit"); warns != test.warns || n.idleConns() != test.idle {
			t.Errorf("limit %d: %d idle connections, log %q", test.limit, n.idleConns(), log.String())
		}
	}
}
