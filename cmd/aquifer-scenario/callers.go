package main

import (
	"net"
	"sync"
)

// callers tells which node has opened a connection. To look through all that the nodes have open costs far more than to
// open one, so a look serves all connections that were there by then: when a partition is over there are hundreds at once.
type callers struct {
	processes func() map[place]int // the ids of those of the nodes that run

	// mu guards open: whose sockets they are that were there at the last look, by inode.
	mu   sync.Mutex
	open map[uint32]place
}

// of is the node at the other end of a connection; false if it has gone meanwhile, or is none of ours.
func (c *callers) of(accepted net.Conn) (place, bool) {
	inode, err := callerInode(accepted)
	if err != nil {
		return "", false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.open[inode]; !there {
		c.look()
	}
	p, there := c.open[inode]
	return p, there
}

// look finds out whose sockets there are; mu is held.
func (c *callers) look() {
	c.open = make(map[uint32]place)
	for id, pid := range c.processes() {
		for _, inode := range sockets(pid) {
			c.open[inode] = id
		}
	}
}
