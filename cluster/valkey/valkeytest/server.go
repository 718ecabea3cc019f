package valkeytest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Server is one Valkey of a test. Its methods are for the goroutine of the test.
type Server struct {
	// Addr is host:port.
	Addr string

	t      testing.TB
	binary string
	args   []string
	cmd    *exec.Cmd     // nil: it does not run
	ended  chan struct{} // closed when cmd has ended
	log    bytes.Buffer
}

// patience bounds how long a server may take to start.
const patience = 30 * time.Second

// Start runs a server until the test ends. It keeps nothing on disk unless the arguments, which are those of
// valkey-server, say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: Binary(t)}
	port := strconv.Itoa(FreePort(t))
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--loglevel", "warning"}, args...)
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

// Binary returns the path of a server.
func Binary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no valkey-server: make deps installs it")
	return ""
}

// FreePort returns a port of the loopback interface where nobody listens, nor will while a server is down: the
// system gives ports from 32768 on to outgoing connections. Until the test ends no other call returns it, nor does one of
// another process.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, last, tries = 10_000, 18_000, 100
	for range tries {
		port := first + rand.IntN(last-first)
		if reserve(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// reserve takes an address that is free. What is kept is the port of UDP, which no server needs.
func reserve(t testing.TB, addr string) bool {
	t.Helper()
	kept, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		kept.Close()
		return false
	}
	l.Close()
	t.Cleanup(func() { kept.Close() })
	return true
}

// URL is how a client without credentials gets to the first database.
func (s *Server) URL() string { return "valkey://" + s.Addr }

// Port is the port of Addr.
func (s *Server) Port() int {
	_, port, _ := net.SplitHostPort(s.Addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Restart runs the server again where it was, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !s.run(limit.C) {
		text := s.log.String()
		// A process that is just being started elsewhere may have the port a moment longer than who looked whether it is free.
		if !strings.Contains(text, "Address already in use") {
			s.t.Fatalf("%s does not start: %s", s.binary, text)
		}
	}
}

// run starts a process, and reports whether it answers. One that does not has ended.
func (s *Server) run(limit <-chan time.Time) bool {
	s.t.Helper()
	s.log.Reset()
	s.cmd = exec.Command(s.binary, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait()
	}(s.cmd, s.ended)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if s.answers() {
				return true
			}
		case <-s.ended:
			s.cmd = nil
			return false
		case <-limit:
			s.Kill()
			s.t.Fatalf("%s does not start: %s", s.binary, s.log.String())
		}
	}
}

// answers reports whether a Valkey answers, and not only something that has the port.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = c.Read(make([]byte, 1))
	return err == nil
}

// Kill ends the server as kill -9 does. It may be started again.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Pause stops the server as SIGSTOP does: it is there and does not answer. Resume ends that.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	for { // the signal is sent, and on another core the server may go on for a moment
		var status syscall.WaitStatus
		_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			s.t.Fatalf("the server does not stop: %v, %v", status, err)
		default:
			return
		}
	}
}

// Resume has a server that was paused go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("the server does not run")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends a command over a connection of its own and returns the answer, in which a missing value is an
// empty one. An error fails the test.
func (s *Server) Do(command ...string) *valkey.ValkeyMessage {
	s.t.Helper()
	c, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Do(context.Background(), c.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil && !errors.Is(err, valkey.Nil) {
		s.t.Fatalf("%q: %v", command, err)
	}
	return &answer
}

// Get returns the string at a key; empty if there is none.
func (s *Server) Get(key string) string {
	s.t.Helper()
	m := s.Do("GET", key)
	if m.IsNil() {
		return ""
	}
	text, err := m.ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// StartCluster runs a server that is a Valkey Cluster by itself, until the test ends.
func StartCluster(t testing.TB) *Server {
	t.Helper()
	s := Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(FreePort(t)))
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for info := ""; !strings.Contains(info, "cluster_state:ok"); {
		select {
		case <-tick.C:
			info, _ = s.Do("CLUSTER", "INFO").ToString()
		case <-limit.C:
			t.Fatalf("the cluster is not ready: %s", info)
		}
	}
	return s
}
