package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take to end when asked; then it is killed.
const stopTimeout = 15 * time.Second

// program says what to start.
type program struct {
	name  string // of its log file
	path  string
	args  []string
	env   []string // the whole environment, so that runs do not depend on the caller's
	dir   string   // working directory; the log is written there
	files []*os.File
}

// child is a process that the harness has started. It is ended by its process id, at the latest by
// close. One goroutine owns it; died may be read by all.
type child struct {
	name string
	pid  int
	log  string
	died chan struct{} // closed when the process has ended
	err  error         // how it ended; may be read once died is closed

	process *os.Process
}

// launch starts p. The process dies with the harness, where the system can do that.
func launch(p program) (*child, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.name, err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(p.path, p.args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.env, p.dir, p.files
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieTogether()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	c := &child{name: p.name, pid: cmd.Process.Pid, log: log.Name(), died: make(chan struct{}), process: cmd.Process}
	go func() {
		c.err = cmd.Wait()
		close(c.died)
	}()
	return c, nil
}

// kill ends the process at once, as a crash would.
func (c *child) kill() {
	// The only error is that it has ended already.
	_ = c.process.Kill()
	<-c.died
}

// terminate asks the process to end and waits for it. It is an error if it does not end in time, then
// it is killed, or if it reports a failure.
func (c *child) terminate() error {
	if err := c.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	select {
	case <-c.died:
	case <-time.After(stopTimeout):
		c.kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM\n%s", c.name, stopTimeout, c.tail())
	}
	if c.err != nil {
		return fmt.Errorf("%s ended with %w\n%s", c.name, c.err, c.tail())
	}
	return nil
}

// exit says how the process ended.
func (c *child) exit() string {
	if c.err == nil {
		return "exit status 0"
	}
	return c.err.Error()
}

// tail is the end of what the process wrote.
func (c *child) tail() string {
	const keep = 2000
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return fmt.Sprintf("(its log: %v)", err)
	}
	if len(raw) > keep {
		raw = raw[len(raw)-keep:]
	}
	return strings.TrimSpace(string(raw))
}

// self is this program with another command.
func self(dir, name string, files []*os.File, args ...string) (program, error) {
	path, err := os.Executable()
	if err != nil {
		return program{}, fmt.Errorf("find this program: %w", err)
	}
	return program{name: name, path: path, args: append([]string{name}, args...), dir: dir, files: files}, nil
}

// await calls ok until it reports true, every few ms, at most for limit.
func (c *child) await(ctx context.Context, limit time.Duration, ok func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-c.died:
			return fmt.Errorf("%s ended (%s)\n%s", c.name, c.exit(), c.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", c.name, ctx.Err(), c.tail())
		}
	}
	return nil
}
