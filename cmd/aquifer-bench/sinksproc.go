package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/aquifer-fleet/aquifer/cmd/child"
)

// sinks are the target and the receiver, in a process of their own. What they see is handed to one
// goroutine here, in the order in which it was written.
type sinks struct {
	*child.Process
	target   string // host:port
	receiver string
	seen     chan error // gets the end of the events
}

// startSinks starts the process and calls see for each event, always from one goroutine, until close.
func startSinks(dir string, bodySize int, see func(event)) (*sinks, error) {
	target, targetAddr, err := loopback()
	if err != nil {
		return nil, err
	}
	defer target.Close() // the process has its own
	receiver, receiverAddr, err := loopback()
	if err != nil {
		return nil, err
	}
	defer receiver.Close()
	events, eventsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe of the sinks: %w", err)
	}
	defer eventsIn.Close()

	p, err := self(dir, "sinks", []*os.File{target, receiver, eventsIn}, "--body="+strconv.Itoa(bodySize))
	if err == nil {
		s := &sinks{target: targetAddr, receiver: receiverAddr, seen: make(chan error, 1)}
		if s.Process, err = child.Start(p); err == nil {
			go func() {
				defer events.Close()
				s.seen <- readEvents(events, see)
			}()
			return s, nil
		}
	}
	events.Close()
	return nil, err
}

// close ends the process; when it returns see is not called any more.
func (s *sinks) close() error {
	stopped := s.Terminate(stopTimeout)
	if err := <-s.seen; err != nil {
		return err
	}
	return stopped
}

// loopback opens a listener on a free port of the loopback interface, as a file to be inherited.
func loopback() (*os.File, string, error) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	defer ln.Close()
	f, err := ln.File()
	if err != nil {
		return nil, "", fmt.Errorf("listener as a file: %w", err)
	}
	return f, ln.Addr().String(), nil
}
