package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// quickDemo is the demo at a pace for tests.
func quickDemo() demo {
	return demo{rps: 100, limit: patience, tenants: []tally{{name: "alice", burst: 12}, {name: "bob", burst: 3}}}
}

// emptyTemp makes an empty directory for temporary files and fails the test if anything stays there.
func emptyTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
	return dir
}

func TestDemoComesToItsEnd(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out strings.Builder
	if err := quickDemo().run(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"accepted 15/15  released 15/15 (alice 12/12, bob 3/3)  delivered 15/15\n",
		"15 jobs were accepted in ", "Try next:\n  aquifer  ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestDemoThatIsInterruptedEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := quickDemo()
	d.rps = 1
	out := writes(func() { cancel() }) // with the first picture
	if err := d.run(ctx, t.TempDir(), out); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// writes is an output that calls a function with each write.
type writes func()

func (w writes) Write(b []byte) (int, error) { w(); return len(b), nil }

func TestDemoSaysWhenItIsTooSlow(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := quickDemo()
	d.rps, d.limit = 1, time.Millisecond
	if err := d.run(t.Context(), t.TempDir(), writes(func() {})); !errors.Is(err, errSlow) {
		t.Errorf("ended with %v", err)
	}
}

func TestDemoEndsCleanWithCtrlC(t *testing.T) {
	c := start(t, (*exec.Cmd).StdoutPipe, []string{"TMPDIR=" + emptyTemp(t), "PORT=nonsense"}, "demo")
	c.line("accepted 40/40")
	c.signal(syscall.SIGINT)
	if code := c.wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}
