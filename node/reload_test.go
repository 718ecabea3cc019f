package node

import (
	"errors"
	"testing"
)

// A file that is read again while the node starts would be lost: whoever wants it is told.
func TestReloadDuringTheStart(t *testing.T) {
	n, err := New(mustConfig(t, "CONFIG_PATH="+writeFile(t, "defaults: {rps: 5}\n")), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(); !errors.Is(err, errStarting) {
		t.Errorf("reload before the store is open: %v", err)
	}
}
