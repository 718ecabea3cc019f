package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// server is the Valkey of a world. It keeps nothing on disk.
type server struct {
	dir    string
	listen string
	door   *door
	proc   *child.Process // nil while it is down
}

// valkeyProgram finds a server.
func valkeyProgram() (string, error) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no valkey-server: make deps installs it")
}

func (s *server) start(ctx context.Context) error {
	path, err := valkeyProgram()
	if err != nil {
		return err
	}
	_, port, found := strings.Cut(s.listen, ":")
	if !found {
		return errors.New("address of valkey has no port: " + s.listen)
	}
	s.proc, err = child.Start(child.Program{Name: string(valkey), Path: path, Dir: s.dir, Args: []string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--loglevel", "warning",
	}})
	if err != nil {
		return err
	}
	if err := s.proc.Await(ctx, startTimeout, s.listens); err != nil {
		return err
	}
	return s.door.open()
}

func (s *server) listens(ctx context.Context) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", s.listen)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// kill ends the server, and with it all it knows.
func (s *server) kill() {
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
	s.door.close()
}

func (s *server) freeze() error { return s.proc.Signal(syscall.SIGSTOP) }
func (s *server) thaw() error   { return s.proc.Signal(syscall.SIGCONT) }
