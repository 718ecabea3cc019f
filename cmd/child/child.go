// Package child runs other programs for the programs that test a node from outside.
//
// A program writes into a log file of its own, the end of which is part of every error about it. It is asked
// to end or killed by its process id, and the system kills it should the process that started it die first,
// where the system can do that (Linux). Children of its own are its own affair.
package child

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

// Program says what to start.
type Program struct {
	Name  string // of the process in errors, and of its log file
	Path  string
	Args  []string
	Env   []string   // the whole environment, so that runs do not depend on the caller's; nil is the caller's
	Dir   string     // working directory; the log is written there
	Files []*os.File // that it inherits, from 3 on
}

// Process is a program that has been started. Its methods may be called from any goroutine.
type Process struct {
	name string
	log  string
	os   *os.Process
	died chan struct{} // closed when it has ended
	err  error         // how it ended; may be read once died is closed
}

// Start starts a program and does not wait for anything.
func Start(p Program) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(p.Dir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", p.Name, err)
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.Env, p.Dir, p.Files
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieTogether()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	c := &Process{name: p.Name, log: log.Name(), os: cmd.Process, died: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.died)
	}()
	return c, nil
}

// ID is the process id.
func (c *Process) ID() int { return c.os.Pid }

// Died is closed once the process has ended.
func (c *Process) Died() <-chan struct{} { return c.died }

// Await calls ready until it reports true, every few ms. It is an error if that takes longer than limit, or
// if the process ends.
func (c *Process) Await(ctx context.Context, limit time.Duration, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond) // starts are measured
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-tick.C:
		case <-c.died:
			return c.Ended()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", c.name, ctx.Err(), c.Tail())
		}
	}
	return nil
}

// Signal sends a signal. It is no error if the process has ended.
func (c *Process) Signal(s os.Signal) error {
	if err := c.os.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	return nil
}

// Terminate asks the process to end and waits for that. It is an error if it does not end within limit, then
// it is killed, or if it reports a failure.
func (c *Process) Terminate(limit time.Duration) error {
	if err := c.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.died:
	case <-time.After(limit):
		c.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM\n%s", c.name, limit, c.Tail())
	}
	if c.err != nil {
		return c.Ended()
	}
	return nil
}

// Kill ends the process at once, as a crash would.
func (c *Process) Kill() {
	_ = c.os.Kill() // the only error is that it has ended already
	<-c.died
}

// Ended waits for the end of the process and tells of it. It is for one that was to go on, so it is an error
// however the process ended.
func (c *Process) Ended() error {
	<-c.died
	if c.err == nil {
		return fmt.Errorf("%s ended with exit status 0\n%s", c.name, c.Tail())
	}
	return fmt.Errorf("%s ended with %w\n%s", c.name, c.err, c.Tail())
}

// Tail is the end of what the process wrote.
func (c *Process) Tail() string {
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
