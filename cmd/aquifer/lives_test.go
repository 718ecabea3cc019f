package main

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aquifer-fleet/aquifer/node/client"
)

// lives is one node over several processes, one after another on the same store. Each tells targets
// its number, as the node's id.
type lives struct {
	*child // the process of now
	door   *door
	env    []string
	n      int          // processes so far
	pid    atomic.Int64 // of the process of now, for those who kill it

	transport *http.Transport // of all clients
}

// newLives returns a node that has not been started. dir is where its store will be.
func newLives(t *testing.T, dir, targets string, env ...string) *lives {
	t.Helper()
	config := filepath.Join(t.TempDir(), "targets.yaml")
	if err := os.WriteFile(config, []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &door{moved: make(chan struct{})}
	l := &lives{
		child: &child{t: t}, door: d, transport: &http.Transport{DialContext: d.dial, MaxIdleConnsPerHost: 16},
		env: append([]string{"DB_PATH=" + filepath.Join(dir, "store"), "CONFIG_PATH=" + config}, env...),
	}
	t.Cleanup(l.transport.CloseIdleConnections)
	return l
}

// begin starts the next process and returns when it serves.
func (l *lives) begin(env ...string) {
	l.t.Helper()
	l.launch(env...)
	l.serving()
	l.door.move(strings.TrimPrefix(l.url, "http://"))
}

// launch starts the next process.
func (l *lives) launch(env ...string) {
	l.t.Helper()
	l.n++
	l.child = launch(l.t, slices.Concat(l.env, []string{"AQUIFER_NODE_ID=life-" + strconv.Itoa(l.n)}, env)...)
	l.pid.Store(int64(l.cmd.Process.Pid))
}

// kill ends the process as kill -9 does.
func (l *lives) kill() {
	l.t.Helper()
	l.door.move("")
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		l.t.Fatal(err)
	}
	l.died()
}

// died waits for the end of a process that is killed, or kills itself.
func (l *lives) died() {
	l.t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		more, eof := l.more, l.eof
		l.mu.Unlock()
		if eof {
			break
		}
		select {
		case <-more:
		case <-late:
			l.t.Fatalf("the process lives on:\n%s", l.log())
		}
	}
	l.door.move("")
	l.wait()
	if status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		l.t.Fatalf("ended with %v:\n%s", l.cmd.ProcessState, l.log())
	}
}

// stop ends the process with a SIGTERM, which must work.
func (l *lives) stop() {
	l.t.Helper()
	// A connection that has never been used holds the stop of a server up for 5 s.
	l.transport.CloseIdleConnections()
	l.signal(syscall.SIGTERM)
	code := l.wait()
	l.door.move("")
	if code != 0 {
		l.t.Fatalf("exit code %d after SIGTERM:\n%s", code, l.log())
	}
}

func (l *lives) log() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// client returns a client that finds whatever process there is.
func (l *lives) client() *client.Client {
	l.t.Helper()
	c, err := client.New("http://node", l.transport)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Reconnects = math.MaxInt // no process lives long
	return c
}

// door is where a node is found whose address changes with every process. It holds those who knock
// until there is one that opens.
type door struct {
	mu    sync.Mutex // guards all below
	addr  string     // empty while no process is known
	moved chan struct{}
}

func (d *door) move(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addr = addr
	close(d.moved)
	d.moved = make(chan struct{})
}

func (d *door) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	for {
		d.mu.Lock()
		addr, moved := d.addr, d.moved
		d.mu.Unlock()
		if addr != "" {
			if conn, err := dialer.DialContext(ctx, network, addr); err == nil {
				return conn, nil
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// eventually waits until ready says so, which it asks again and again.
func eventually(t *testing.T, limit time.Duration, what func() string, ready func() bool) {
	t.Helper()
	late := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not yet, after %v: %s", limit, what())
		}
	}
}
