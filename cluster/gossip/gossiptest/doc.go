// Package gossiptest is a network in memory for nodes that gossip, made for bubbles of testing/synctest.
// Tests add hosts to it, cut links one way or both, lose and delay packets, and put in packets of their own.
//
// Packets may be lost and arrive in any order, as in UDP. What is lost of a stream is sent again, as in
// TCP, so a lossy link makes streams slow, and a cut one makes them wait until their deadline.
package gossiptest
