//go:build crashpoints

package crashpoint_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
)

func TestArmRefuses(t *testing.T) {
	for _, spec := range []string{"", "begun", "begun:", "begun:0", "begun:-1", "begun:x", "begun:1:2", ":1", "Begun:1", "no such point:1"} {
		if err := crashpoint.Arm(spec); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", spec)) {
			t.Errorf("%q: %v", spec, err)
		}
	}
	for _, p := range crashpoint.Points() {
		crashpoint.Reach(p) // nothing is armed
	}
}

// The process that dies is this test itself, started again.
func TestReachKillsAtTheCount(t *testing.T) {
	const role = "-test.run=^TestDies$"
	out, err := exec.CommandContext(t.Context(), os.Args[0], role, "-test.v", "dies").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it lives: %v\n%s", err, out)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", exit)
	}
	if got := strings.Count(string(out), "alive\n"); got != 3 {
		t.Errorf("it was alive %d times, want 3:\n%s", got, out)
	}
}

// TestDies is the process that TestReachKillsAtTheCount starts.
func TestDies(t *testing.T) {
	if os.Args[len(os.Args)-1] != "dies" {
		t.Skip("it is for a process of its own")
	}
	if err := crashpoint.Arm("answered:2"); err != nil {
		t.Fatal(err)
	}
	out := os.Stdout
	fmt.Fprintln(out, "alive")
	crashpoint.Reach(crashpoint.Answered)
	fmt.Fprintln(out, "alive")
	crashpoint.Reach(crashpoint.Recorded)
	fmt.Fprintln(out, "alive")
	crashpoint.Reach(crashpoint.Answered)
	fmt.Fprintln(out, "alive")
}
