package child_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// patience is how long a test waits for something that should come at once.
const patience = 30 * time.Second

// shell starts a script. Files are its 3 and following.
func shell(t *testing.T, script string, files ...*os.File) *child.Process {
	t.Helper()
	c, err := child.Start(child.Program{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir(), Files: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// says waits until a process has written something.
func says(t *testing.T, c *child.Process, text string) {
	t.Helper()
	err := c.Await(t.Context(), patience, func(context.Context) bool { return strings.Contains(c.Tail(), text) })
	if err != nil {
		t.Fatal(err)
	}
}

// mentions fails the test unless an error has these texts.
func mentions(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in: %v", text, err)
		}
	}
}

func TestWhatAProcessIsGiven(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	c, err := child.Start(child.Program{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", `echo "$1 $COLOR" >&3; pwd >&3`, "sh", "one"},
		Env: []string{"COLOR=blue"}, Dir: dir, Files: []*os.File{w},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	<-c.Died()
	got, err := io.ReadAll(r)
	if want := "one blue\n" + dir + "\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestNoSuchProgram(t *testing.T) {
	_, err := child.Start(child.Program{Name: "node", Path: "/nowhere/aquifer", Dir: t.TempDir()})
	mentions(t, err, "start node", "/nowhere/aquifer")
}

func TestNoPlaceForTheLog(t *testing.T) {
	_, err := child.Start(child.Program{Name: "node", Path: "/bin/sh", Dir: filepath.Join(t.TempDir(), "nowhere")})
	if mentions(t, err, "log of node"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestASecondStartWritesOn(t *testing.T) {
	p := child.Program{Name: "script", Path: "/bin/sh", Dir: t.TempDir()}
	for _, text := range []string{"first", "second"} {
		p.Args = []string{"-c", "echo " + text}
		c, err := child.Start(p)
		if err != nil {
			t.Fatal(err)
		}
		if <-c.Died(); text == "second" && c.Tail() != "first\nsecond" {
			t.Errorf("%q", c.Tail())
		}
	}
}

func TestAProcessThatEndsIsNotAwaited(t *testing.T) {
	for script, want := range map[string]string{"echo no such setting; exit 3": "exit status 3", "echo no such setting": "exit status 0"} {
		err := shell(t, script).Await(t.Context(), patience, func(context.Context) bool { return false })
		mentions(t, err, "script ended with "+want, "no such setting")
	}
}

func TestAProcessThatIsNeverReady(t *testing.T) {
	c := shell(t, "echo here; exec sleep 600")
	says(t, c, "here")
	err := c.Await(t.Context(), time.Millisecond, func(context.Context) bool { return false })
	if mentions(t, err, "script is not ready", "here"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAnOrderedEnd(t *testing.T) {
	c := shell(t, "trap 'exit 0' TERM; echo here; while :; do sleep 0.01; done")
	says(t, c, "here")
	if err := c.Terminate(patience); err != nil {
		t.Error(err)
	}
	if err := c.Terminate(patience); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func TestAnEndWithAFailure(t *testing.T) {
	c := shell(t, "trap 'echo disk is gone; exit 4' TERM; echo here; while :; do sleep 0.01; done")
	says(t, c, "here")
	mentions(t, c.Terminate(patience), "exit status 4", "disk is gone")
}

func TestAProcessThatDoesNotEndIsKilled(t *testing.T) {
	c := shell(t, "trap '' TERM; echo here; while :; do sleep 0.01; done")
	says(t, c, "here")
	mentions(t, c.Terminate(time.Millisecond), "did not end within 1ms", "here")
	mentions(t, c.Ended(), "killed")
}

func TestSignals(t *testing.T) {
	c := shell(t, "trap 'echo heard' USR1; echo here; while :; do sleep 0.01; done")
	says(t, c, "here")
	if err := c.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	says(t, c, "heard")
	c.Kill()
	if err := c.Signal(syscall.SIGUSR1); err != nil {
		t.Errorf("to one that has ended: %v", err)
	}
}

func TestTheEndOfALongLog(t *testing.T) {
	c := shell(t, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done")
	<-c.Died()
	if tail := c.Tail(); len(tail) > 2000 || !strings.HasSuffix(tail, "\nline 999") {
		t.Errorf("%d bytes: %q", len(tail), tail)
	}
}
