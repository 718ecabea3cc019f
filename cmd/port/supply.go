// Package port finds addresses for processes that are to be started.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Supply hands out addresses that stay free while nobody listens there: a process that is down must find its
// port again, so it must not be one that the system gives to outgoing connections. An address comes again only when
// all others have come.
type Supply struct{ next atomic.Int32 }

const (
	first = 18000
	last  = 30000 // Linux begins with outgoing connections at 32768
)

// NewSupply begins somewhere, so that two at a time rarely look at the same ports.
func NewSupply() *Supply {
	s := &Supply{}
	s.next.Store(rand.Int32N(last - first))
	return s
}

// Take returns host:port on the loopback interface, free for TCP and for UDP.
func (s *Supply) Take() (string, error) {
	for range last - first {
		addr := fmt.Sprintf("127.0.0.1:%d", first+int(s.next.Add(1))%(last-first))
		if free(addr) {
			return addr, nil
		}
	}
	return "", errors.New("no free port")
}

// Pair returns two of them.
func (s *Supply) Pair() (one, two string, err error) {
	if one, err = s.Take(); err == nil {
		two, err = s.Take()
	}
	return one, two, err
}

func free(addr string) bool {
	stream, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer stream.Close()
	packet, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	return packet.Close() == nil
}
