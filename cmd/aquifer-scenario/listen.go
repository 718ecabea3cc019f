package main

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// A process that is being started has a copy of everything this one had open, also of what was closed since, until
// it becomes its own program.
const (
	copyFor = 2 * time.Second
	again   = 5 * time.Millisecond
)

// insist opens a port that is free but for such a copy.
func insist[T any](open func() (T, error)) (T, error) {
	for limit := time.Now().Add(copyFor); ; {
		it, err := open()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(limit) {
			return it, err
		}
		<-time.After(again)
	}
}

// listen opens a port for connections.
func listen(addr string) (net.Listener, error) {
	return insist(func() (net.Listener, error) { return net.Listen("tcp", addr) })
}
