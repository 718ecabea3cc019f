package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for something that should come at once.
const patience = 30 * time.Second

// child is aquifer as a process of its own.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	url string // of the node, for serve

	mu    sync.Mutex    // guards what the reader of the output shares
	lines []string      // of the output so far
	more  chan struct{} // closed and replaced when there are more lines
	eof   bool
}

// start runs aquifer. out picks the output to follow: standard output or standard error.
func start(t *testing.T, out func(*exec.Cmd) (io.ReadCloser, error), env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), "aquifer", args...), more: make(chan struct{})}
	c.cmd.Dir = t.TempDir()
	c.cmd.Env = append(c.cmd.Environ(), env...)
	r, err := out(c.cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read(r)
	t.Cleanup(func() { c.wait() }) // the end of the test's context has killed it, if nothing else did
	return c
}

func (c *child) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	for open := true; open; {
		open = scanner.Scan()
		c.mu.Lock()
		c.eof = !open
		if open {
			c.lines = append(c.lines, scanner.Text())
		}
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
	}
}

// line waits for a line of the output with this text.
func (c *child) line(text string) string {
	c.t.Helper()
	late := time.After(patience)
	for {
		c.mu.Lock()
		i := slices.IndexFunc(c.lines, func(l string) bool { return strings.Contains(l, text) })
		lines, more, eof := c.lines, c.more, c.eof
		c.mu.Unlock()
		switch {
		case i >= 0:
			return lines[i]
		case eof:
			c.t.Fatalf("no line with %q in:\n%s", text, strings.Join(lines, "\n"))
		}
		select {
		case <-more:
		case <-late:
			c.t.Fatalf("no line with %q yet in:\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// signal sends a signal.
func (c *child) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit code.
func (c *child) wait() int {
	c.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer stuck.Stop()
	c.drain()
	if c.cmd.ProcessState == nil {
		var exit *exec.ExitError
		if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			c.t.Error(err)
		}
	}
	return c.cmd.ProcessState.ExitCode()
}

// drain waits until the output has ended, as Wait must not be called before.
func (c *child) drain() {
	for {
		c.mu.Lock()
		more, eof := c.more, c.eof
		c.mu.Unlock()
		if eof {
			return
		}
		<-more
	}
}
