package node

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A node that a control plane could not call does not start, and leaves its store and its port alone.
func TestStartWithoutAPortToAdvertise(t *testing.T) {
	socket, fs := filepath.Join(t.TempDir(), "api"), vfs.NewMem()
	listen := func(ctx context.Context, _, _ string) (net.Listener, error) {
		var lc net.ListenConfig
		return lc.Listen(ctx, "unix", socket)
	}
	for range 2 {
		n, err := New(mustConfig(t, "AQUIFER_REGISTRY_URL=http://canalis/register", "DB_PATH=store"), Deps{Listen: listen, FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "AQUIFER_LISTEN or PORT must") || !strings.Contains(err.Error(), socket) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := fs.Stat("store"); err == nil {
		t.Error("the store was touched")
	}
}
