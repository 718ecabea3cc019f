// Package nodetest runs whole nodes in memory and in virtual time: their disks, the network between
// them, the targets that they call, the receivers that they deliver to, and their clients.
//
// Run opens a bubble of testing/synctest and a Fleet in it. A node that is started there is a real one
// from its listener to its store; only the file system below and the network around it are in memory.
// It can be stopped, killed the way a process dies or a machine loses power, and started again on what
// its disk kept. Servers do what they are told, also what no server should, and remember what they were
// sent and when. At the end every node must be idle, every gauge zero, and no goroutine left.
//
// It injects no faults into the store; package storetest does. It speaks HTTP/1.1 without TLS only.
package nodetest
