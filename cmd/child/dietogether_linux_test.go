package child_test

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// TestMain lets the test program stand in for a harness that starts a process and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "harness" {
		_, err := child.Start(child.Program{
			Name: "script", Path: "/bin/sh", Args: []string{"-c", "echo here >&3; exec sleep 600"}, Dir: os.Args[2],
			Files: []*os.File{os.NewFile(3, "alive")},
		})
		if err != nil {
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

func TestAProcessDiesWithWhoStartedIt(t *testing.T) {
	alive, inherited, err := os.Pipe() // open as long as the process lives
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	harness := exec.Command(os.Args[0], "harness", t.TempDir())
	harness.ExtraFiles = []*os.File{inherited}
	err = harness.Start()
	inherited.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(alive, make([]byte, len("here\n"))); err != nil {
		t.Fatal(err)
	}
	_ = harness.Process.Kill()
	_ = harness.Wait()
	if err := alive.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it lives on: %v", err)
	}
}
