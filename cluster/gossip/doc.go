// Package gossip is the cluster.View whose members find each other and watch over each other without
// anything else to run: SWIM gossip of hashicorp/memberlist, encrypted when there is a key.
//
// A node joins through addresses and names that are looked up again for ever, so it also finds members that
// come later and meets again those that a broken network took away. It is settled when another member
// says that it has taken it in, or when nobody was to be found for a while; a node that is refused stays
// unsettled and says why. A member that dies is out of all views within five seconds; who is cut off on its
// own side of a broken network sees the other side as dead, and both go on: there is no quorum.
//
// Two nodes of one id are never both settled for long. The one that is there stays, the other one waits
// until it is gone; where each was there for some members only, the younger one steps aside.
//
// Without a key anybody who reaches the port can add and remove members, and can have the library's decoder
// ask for gigabytes of memory by a few bytes that claim to be the beginning of so much.
package gossip
