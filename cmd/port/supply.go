// Package port finds addresses for processes that are to be started. They stay free while nobody listens there: a
// process that is down must find its port again, so it must not be one that the system gives to outgoing connections,
// nor one that is given by another process that uses this package.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const (
	first = 18000
	last  = 30000 // Linux begins with outgoing connections at 32768
	// share is how many ports that follow each other are all one process's. It listens at the first one to its end,
	// which keeps the others out.
	share = 50
)

// supply is all of the process's, as its shares are.
var supply = struct {
	mu   sync.Mutex // guards all below
	next int        // port, from first on
	held map[int]net.Listener
}{next: share * rand.IntN((last-first)/share), held: make(map[int]net.Listener)}

// Take returns host:port on the loopback interface, free for TCP and for UDP. It comes again only when all others have
// come.
func Take() (string, error) {
	supply.mu.Lock()
	defer supply.mu.Unlock()
	for range last - first {
		n := supply.next
		supply.next = (n + 1) % (last - first)
		if n%share != 0 && holds(n-n%share) && free(address(n)) {
			return address(n), nil
		}
	}
	return "", errors.New("no free port")
}

// holds reports whether the share that begins there is this process's; supply.mu is held.
func holds(n int) bool {
	if supply.held[n] != nil {
		return true
	}
	l, err := net.Listen("tcp", address(n))
	if err == nil {
		supply.held[n] = l
	}
	return err == nil
}

func address(n int) string { return fmt.Sprintf("127.0.0.1:%d", first+n) }

// Pair returns two of them.
func Pair() (one, two string, err error) {
	if one, err = Take(); err == nil {
		two, err = Take()
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
